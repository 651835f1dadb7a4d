package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

// every calls f after random times of up to most until ctx ends.
func every(ctx context.Context, rng *rand.Rand, most time.Duration, f func()) {
	wait := func() time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	timer := time.NewTimer(wait())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			f()
			timer.Reset(wait())
		}
	}
}

// trouble makes faults on the way between one client and etcd until ctx ends.
func trouble(ctx context.Context, p *etcdtest.Proxy, rng *rand.Rand, revision func() int64) (faults map[string]int) {
	faults = make(map[string]int)
	end := func() {}
	defer func() { end() }()
	every(ctx, rng, 60*time.Millisecond, func() {
		end()
		end = func() {}
		switch rng.IntN(8) {
		case 0, 1, 2: // something has been written: by this client, as often as not
			before := revision()
			p.LoseReply(func(int) bool { return revision() > before })
			faults["reply lost"]++
		case 3, 4:
			p.LoseRequest(func(int) bool { return true })
			faults["request lost"]++
		case 5:
			p.Cut(true)
			end = func() { p.Cut(false) }
			faults["cut"]++
		case 6:
			p.Refuse(true)
			end = func() { p.Refuse(false) }
			faults["refused"]++
		}
	})
	return faults
}

// storm runs clients for a time, each through a proxy of its own that makes trouble. client returns what
// a client does, over and over. It ends when all has ended.
func storm(t *testing.T, server *etcdtest.Server, d time.Duration, clients int, client func(id int, s cas.Store, rng *rand.Rand) func()) {
	seed := rand.Uint64()
	var loads, troubles sync.WaitGroup
	stormy, calm := context.WithTimeout(t.Context(), d)
	defer calm()
	totals := make(chan map[string]int, clients)
	for id := range clients {
		proxy := etcdtest.NewProxy(t, server.Endpoint)
		s := etcdkv.New(etcdtest.Dial(t, clientv3.Config{Endpoints: []string{proxy.Addr}}))
		rng := rand.New(rand.NewPCG(seed, uint64(id)))
		act := client(id, s, rng)
		troubles.Go(func() {
			totals <- trouble(stormy, proxy, rand.New(rand.NewPCG(seed, uint64(100+id))), server.Etcd.Server.KV().Rev)
		})
		loads.Go(func() {
			defer s.Close()
			// Not all of the time: what is under way at once is what porcupine has to search through.
			every(stormy, rng, 4*time.Millisecond, act)
		})
	}
	loads.Wait()
	troubles.Wait()
	close(totals)
	sum := make(map[string]int)
	for m := range totals {
		for k, n := range m {
			sum[k] += n
		}
	}
	t.Logf("faults: %v", sum)
}

// soon gives a call some time, in which a machine that is not busy gets it done, as often as not.
func soon(rng *rand.Rand, patience int) func(ctx context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Duration(patience)*time.Duration(5+rng.IntN(150))*time.Millisecond)
	}
}

// patiently runs attempt until it says that the load has shown something, with more patience each time: on a
// machine that is busy with other things too few operations come to an end.
func patiently(t *testing.T, attempt func(patience int) bool) {
	t.Helper()
	for patience := 1; patience <= 8; patience *= 2 {
		if attempt(patience) {
			return
		}
	}
	t.Error("nothing was shown: the load, or a judge, is no good")
}

// onEtcd runs clients of one policy.
func onEtcd(t *testing.T, p policy, d time.Duration, patience int) (r run) {
	server := etcdtest.Start(t, etcdtest.Config{})
	direct := etcdkv.New(server.Client(t))
	defer direct.Close()
	guard := write(t.Context(), t, direct, claim, "0")
	log := follow(t.Context(), direct, guard-1)
	keys := []string{prefix + "a", prefix + "b", prefix + "c", prefix + "d"}
	h, pool := &history{}, &pool{}
	var all []*client
	changes, end := context.WithCancel(t.Context())
	var claims sync.WaitGroup
	claims.Go(func() {
		i := 0
		every(changes, rand.New(rand.NewPCG(1, 2)), 200*time.Millisecond, func() {
			i++
			write(t.Context(), t, direct, claim, fmt.Sprint(i))
		})
	})
	storm(t, server, d, 6, func(id int, s cas.Store, rng *rand.Rand) func() {
		c := &client{id: id, store: s, rng: rng, policy: p, keys: keys, h: h, pool: pool, limit: soon(rng, patience), guard: guard}
		all = append(all, c)
		return func() { c.act(t.Context()) }
	})
	end()
	claims.Wait()
	t.Logf("%s: %d operations, writes: %v", p, len(h.records), h.outcomes())
	last := &client{id: len(all), store: direct, policy: p, h: h, limit: context.WithCancel}
	for _, key := range keys {
		last.read(t.Context(), key)
	}
	write(t.Context(), t, direct, finish, "")
	r = run{h: h, log: <-log}
	for _, c := range all {
		r.faults = append(r.faults, c.faults...)
	}
	r.faults = append(r.faults, r.log.judge(r.h)...)
	return r
}

func TestEtcdIsLinearizableAndAppliesOnce(t *testing.T) {
	patiently(t, func(patience int) bool {
		r := onEtcd(t, sound, *forFlag, patience)
		if ok := r.h.linearizable(t, "etcd", r.log); !ok || len(r.faults) > 0 {
			t.Errorf("linearizable %v; %s\n%s", ok, strings.Join(r.faults, "\n"), r.h)
		}
		n := r.h.outcomes()
		return n[cas.Applied] >= 20 && n[cas.Uncertain] > 0
	})
}

func TestEtcdControls(t *testing.T) {
	for _, c := range []struct {
		policy policy
		fault  string
	}{
		{naive, "applied at ["},
		{hopeful, "told not applied, and it was"},
	} {
		patiently(t, func(patience int) bool {
			r := onEtcd(t, c.policy, min(*forFlag, 3*time.Second), patience)
			ok := r.h.linearizable(t, string(c.policy), r.log)
			objects := strings.Contains(strings.Join(r.faults, "\n"), c.fault)
			t.Logf("%s: the log objects: %v, porcupine objects: %v", c.policy, objects, !ok)
			return objects && !ok
		})
	}
}

func onEtcdBank(t *testing.T, p policy, d time.Duration, patience int) (r bank) {
	server := etcdtest.Start(t, etcdtest.Config{})
	direct := etcdkv.New(server.Client(t))
	defer direct.Close()
	open(t, direct)
	log := follow(t.Context(), direct, 1)
	clock := counter()
	var all []*banker
	storm(t, server, d, 3, func(id int, s cas.Store, rng *rand.Rand) func() {
		b := &banker{id: id, store: s, rng: rng, policy: p, limit: soon(rng, patience), clock: clock}
		all = append(all, b)
		n := 0
		return func() { n++; b.act(t.Context(), n) }
	})
	r.audit(t, direct, clock, all)
	write(t.Context(), t, direct, finish, "")
	r.log = <-log
	r.judge()
	t.Logf("%s: %d operations", p, len(r.moves))
	return r
}

func TestEtcdUpdateAllIsLinearizableAndAppliesOnce(t *testing.T) {
	patiently(t, func(patience int) bool {
		r := onEtcdBank(t, sound, *forFlag, patience)
		if ok := r.linearizable(t, "etcd-bank"); !ok || len(r.faults) > 0 {
			t.Errorf("linearizable %v; %s\n%s", ok, strings.Join(r.faults, "\n"), &r)
		}
		n := r.outcomes()
		return n[cas.Applied] >= 20 && n[cas.Uncertain] > 0
	})
}

func TestEtcdUpdateAllControls(t *testing.T) {
	for _, p := range []policy{naive, hopeful} {
		patiently(t, func(patience int) bool {
			r := onEtcdBank(t, p, min(*forFlag, 3*time.Second), patience)
			ok := r.linearizable(t, "etcd-bank-"+string(p))
			t.Logf("%s: the log objects: %v, porcupine objects: %v", p, len(r.faults) > 0, !ok)
			return len(r.faults) > 0 && !ok
		})
	}
}

func TestEtcdSweep(t *testing.T) {
	server := etcdtest.Start(t, etcdtest.Config{})
	s := etcdkv.New(server.Client(t))
	defer s.Close()
	inc := func(age time.Duration) error {
		_, err := cas.Update(t.Context(), s, "n", func(n *int) error { *n++; return nil },
			cas.UpdateConfig{Receipt: cas.Dated(time.Now().Add(-age), "op")})
		return err
	}
	for _, age := range []time.Duration{0, 2 * time.Hour, 100 * time.Hour, 10000 * time.Hour} {
		if err := inc(age); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := cas.Sweep(t.Context(), s, time.Hour); n != 3 || err != nil {
		t.Errorf("deleted %d, %v, want 3", n, err)
	}
	if err := inc(2 * time.Hour); !errors.Is(err, cas.ErrReceiptExpired) {
		t.Errorf("a late retry: got %v", err)
	}
	if n, _, err := cas.Get[int](t.Context(), s, "n"); n != 4 || err != nil {
		t.Errorf("got %d, %v, want 4", n, err)
	}
}
