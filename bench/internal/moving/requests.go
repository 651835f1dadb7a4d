package moving

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// served is a crew whose members take requests: POST /parts/KEY.
type served interface {
	crew
	// target is where a client sends a request for part now; "" if it doesn't know.
	target(part int) string
	close()
}

// Requests is what the contenders that take requests work on: counters in etcd, one for each part.
type Requests struct {
	Etcd   []string // endpoints: each member has a client of its own
	Run    string   // tells this run's names from another's
	client *clientv3.Client
}

// clientsEach is how many clients send requests for one part.
const clientsEach = 2

// giveUp is how long a client goes on to send a request that is refused.
const giveUp = 5 * time.Second

// Contender is one that takes requests.
type Contender struct {
	Name, Note string
	Ours       bool
	open       func(context.Context, counters) (served, error)
}

// Contenders are those that take requests.
func Contenders() []Contender {
	return []Contender{
		{Name: "etcd Election", Note: "one for each part; the leader finishes what it has begun and resigns; clients follow Observe, and send again after 2 ms when they are refused", open: openElection},
		{Name: "Tenure, router", Ours: true, Note: "router.Serve; clients send to the member that stays, which forwards", open: openRouted},
	}
}

// Try runs one trial of c. name is one that no other trial uses.
func (q *Requests) Try(ctx context.Context, c Contender, name string) (r Result, err error) {
	if q.client == nil {
		if q.client, err = dial(q.Etcd); err != nil {
			return r, err
		}
	}
	cs := counters{endpoints: q.Etcd, client: q.client, prefix: "/bench/moving-" + q.Run + "/" + name + "/", name: "moving-" + q.Run + "-" + name, keys: newKeys()}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = q.client.Delete(ctx, cs.prefix, clientv3.WithPrefix())
	}()
	s, err := c.open(ctx, cs)
	if err != nil {
		return r, err
	}
	l := &load{to: s, keys: cs.keys, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: Parts * clientsEach}}}
	running, stop := context.WithCancel(ctx)
	for part := range Parts {
		for range clientsEach {
			l.clients.Go(func() { l.run(running, part) })
		}
	}
	err = trial(ctx, s, &l.gaps, func() error { l.forget(); return nil })
	stop()
	l.clients.Wait()
	r = l.result
	r.Left, r.Joined = l.gaps.of(leaving), l.gaps.of(joining)
	s.close()
	l.client.CloseIdleConnections()
	if err != nil {
		return r, err
	}
	for part := range Parts {
		n, err := cs.load(ctx, part)
		if err != nil {
			return r, err
		}
		r.Lost += max(0, l.acked[part]-n)
		r.Doubled += max(0, n-l.acked[part]-l.unsure[part])
	}
	return r, nil
}

// Close hangs up.
func (q *Requests) Close() {
	if q.client != nil {
		_ = q.client.Close()
	}
}

// load sends requests.
type load struct {
	to      served
	keys    [Parts]string
	client  *http.Client
	clients sync.WaitGroup
	gaps    gaps

	mu     sync.Mutex // guards the fields below
	result Result
	acked  [Parts]int
	unsure [Parts]int // ended in an error, and may have been done or not
}

// forget drops what was counted while the members came up. Sums go on.
func (l *load) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result = Result{}
}

func (l *load) run(ctx context.Context, part int) {
	for tick := time.NewTicker(Pause); ctx.Err() == nil; {
		select {
		case <-tick.C:
			l.request(ctx, part)
		case <-ctx.Done():
			tick.Stop()
		}
	}
}

// request sends one until it is answered: a refusal, which says that nothing was done, is not an answer yet.
func (l *load) request(ctx context.Context, part int) {
	begun, again := time.Now(), 0
	for {
		member, answer := l.send(part)
		took := time.Since(begun)
		if answer == refused && took < giveUp && ctx.Err() == nil {
			again++
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if answer == done {
			l.gaps.saw(part, member)
		}
		if answer == refused && ctx.Err() != nil {
			return // at the end of the trial: it was asked for nothing
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.result.Again += again
		l.result.Slowest = max(l.result.Slowest, took)
		switch answer {
		case done:
			l.result.Work++
			l.acked[part]++
		case unsure:
			l.unsure[part]++
			l.result.Failed++
		case refused:
			l.result.Failed++
		}
		return
	}
}

type answer int

const (
	done    answer = iota
	refused        // certainly not done
	unsure
)

// send does not end with the trial: a request that was cut off by us would be unsure for no fault of the contender.
func (l *load) send(part int) (member string, _ answer) {
	to := l.to.target(part)
	if to == "" {
		return "", refused
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to+"/parts/"+l.keys[part], http.NoBody)
	if err != nil {
		return "", refused
	}
	reply, err := l.client.Do(r)
	if err != nil {
		if strings.Contains(err.Error(), "connect: connection refused") {
			return "", refused
		}
		return "", unsure
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	switch {
	case err != nil:
		return "", unsure
	case reply.StatusCode == http.StatusOK:
		return string(text), done
	case reply.StatusCode == http.StatusMisdirectedRequest, reply.Header.Get("Tenure-Outcome") == "not-applied":
		return "", refused
	default:
		return "", unsure
	}
}
