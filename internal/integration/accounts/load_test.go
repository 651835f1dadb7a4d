package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/tenure-go/tenure/examples/accounts/accountspb"
)

// load is clients that send one request after another, each through a process that was ready when last asked. They never
// try again: what fails has failed.
type load struct {
	accounts []string
	fleet    *fleet
	http     *http.Client
	start    time.Time
	ids      atomic.Int64

	mu     sync.Mutex        // guards the rest
	acks   map[string][]span // of each account: from when a deposit was sent to its acknowledgement
	sums   map[string]int64
	sent   map[string]int // by protocol
	failed []string
}

// patience of one request: above what a process waits for an owner, so that its answer comes first.
const patience = 15 * time.Second

func newLoad(f *fleet, accounts []string) *load {
	return &load{
		accounts: accounts, fleet: f, start: time.Now(),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second}},
		acks: make(map[string][]span), sums: make(map[string]int64), sent: make(map[string]int),
	}
}

// run keeps n requests in flight until ctx ends, half of them over HTTP and half over gRPC, and waits for the last.
func (l *load) run(ctx context.Context, n int) {
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			for ctx.Err() == nil {
				if i%2 == 0 {
					l.one("HTTP", l.overHTTP)
				} else {
					l.one("gRPC", l.overGRPC)
				}
			}
		})
	}
	clients.Wait()
	l.http.CloseIdleConnections()
}

// one deposits once, and keeps the books.
func (l *load) one(protocol string, send func(ctx context.Context, to *process, account, op string, amount int64) error) {
	account, amount := l.accounts[rand.IntN(len(l.accounts))], 1+rand.Int64N(9)
	op := fmt.Sprintf("op-%d", l.ids.Add(1))
	to := l.fleet.pick()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := l.now()
	err := send(ctx, to, account, op, amount)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[protocol]++
	if err != nil {
		l.failed = append(l.failed, fmt.Sprintf("sent at %v, failed at %v, %s via %s for %s: %v", began, l.now(), protocol, to.name, account, err))
		return
	}
	l.acks[account] = append(l.acks[account], span{began, l.now()})
	l.sums[account] += amount
}

func (l *load) overHTTP(ctx context.Context, to *process, account, op string, amount int64) error {
	body := fmt.Sprintf(`{"operation_id": %q, "amount": %d}`, op, amount)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to.said.HTTP+"/accounts/"+account+"/deposits", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.GetBody = nil // the transport is not to try again either
	res, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s, outcome %q: %s", res.Status, res.Header.Get("Tenure-Outcome"), text)
	}
	return err
}

func (l *load) overGRPC(ctx context.Context, to *process, account, op string, amount int64) error {
	_, err := to.calls.Deposit(ctx, &pb.DepositRequest{AccountId: account, OperationId: op, Amount: amount})
	return err
}

// now is the time since the load began.
func (l *load) now() time.Duration { return time.Since(l.start) }

// counts is how many requests were sent by protocol, and those that failed.
func (l *load) counts() (overHTTP, overGRPC int, failed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent["HTTP"], l.sent["gRPC"], l.failed
}

// warm waits until many more requests were answered.
func (l *load) warm(t *testing.T) {
	t.Helper()
	before, _, _ := l.counts()
	until(t, time.Minute, "requests to be answered", func() bool {
		now, _, failed := l.counts()
		return now > before+500 || len(failed) > 0
	})
}

// audit asks for each balance, through any process: it is what was acknowledged, no more and no less.
func (l *load) audit(t *testing.T) {
	t.Helper()
	for account, want := range l.sums {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.fleet.pick().said.HTTP+"/accounts/"+account, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := l.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Balance int64 }
		err = json.NewDecoder(res.Body).Decode(&got)
		_ = res.Body.Close()
		if err != nil || got.Balance != want {
			t.Errorf("%s: got balance %d (%v), want %d: the sum of what was acknowledged", account, got.Balance, err, want)
		}
	}
	l.http.CloseIdleConnections()
}
