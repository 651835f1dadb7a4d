package linear

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// run is what came of one seed.
type run struct {
	h      *history
	log    storeLog
	faults []string
}

// onMemkv runs clients of one policy in a bubble.
func onMemkv(t *testing.T, seed uint64, p policy) (r run) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		direct := server.Client()
		defer direct.Close()
		guard := write(t.Context(), t, direct, claim, "0")
		log := follow(t.Context(), direct, 0)

		shape := rand.New(rand.NewPCG(seed, 0))
		keys := []string{prefix + "a", prefix + "b", prefix + "c"}[:1+shape.IntN(3)]
		clients, acts := 2+shape.IntN(4), 8+shape.IntN(12)
		lossy, slow := shape.IntN(50), shape.IntN(30)
		start := time.Now()
		h, pool := &history{}, &pool{}
		var all []*client
		var wg sync.WaitGroup
		for id := range clients {
			s := server.Client()
			w := &weather{id: id, rng: rand.New(rand.NewPCG(seed, uint64(2*id+1))), start: start, lossy: lossy, slow: slow}
			s.Intercept(w.fate)
			c := &client{
				id: id, store: s, rng: rand.New(rand.NewPCG(seed, uint64(2*id+2))), policy: p, keys: keys,
				h: h, pool: pool, limit: w.limit, guard: guard,
			}
			all = append(all, c)
			wg.Go(func() {
				defer s.Close()
				time.Sleep(time.Duration(id+1) * time.Millisecond) // virtual: one after another
				for range acts {
					c.act(t.Context())
				}
			})
		}
		// The claim changes hands, in no client's moment.
		wg.Go(func() {
			for i := range 4 {
				time.Sleep(time.Duration(3+shape.IntN(10))*round + time.Nanosecond*500)
				write(t.Context(), t, direct, claim, fmt.Sprint(i+1))
			}
		})
		wg.Wait()
		time.Sleep(time.Minute) // virtual: whatever is late arrives
		last := &client{id: clients, store: direct, policy: p, h: h, limit: all[0].limit}
		for _, key := range keys {
			last.read(t.Context(), key)
		}
		write(t.Context(), t, direct, finish, "")
		r = run{h: h, log: <-log}
		for _, c := range all {
			r.faults = append(r.faults, c.faults...)
		}
	})
	r.faults = append(r.faults, r.log.judge(r.h)...)
	return r
}

func TestMemkvIsLinearizableAndAppliesOnce(t *testing.T) {
	outcomes := make(map[cas.Outcome]int)
	operations := 0
	for _, seed := range seeds() {
		r := onMemkv(t, seed, sound)
		for o, n := range r.h.outcomes() {
			outcomes[o] += n
		}
		operations += len(r.h.records)
		name := fmt.Sprintf("seed-%d", seed)
		if ok := r.h.linearizable(t, name, r.log); !ok || len(r.faults) > 0 {
			t.Errorf("seed %d: linearizable %v; %s\n%s\nreplay: go test ./internal/integration/linear -run Memkv -seed %d -v",
				seed, ok, strings.Join(r.faults, "\n"), r.h, seed)
		}
		if *seedFlag != 0 {
			t.Logf("seed %d:\n%s", seed, r.h)
		}
	}
	t.Logf("%d operations; writes: %d applied, %d not applied, %d uncertain for ever",
		operations, outcomes[cas.Applied], outcomes[cas.NotApplied], outcomes[cas.Uncertain])
	if *seedFlag == 0 && (outcomes[cas.Applied] == 0 || outcomes[cas.NotApplied] == 0 || outcomes[cas.Uncertain] == 0) {
		t.Errorf("the load is no test: outcomes %v", outcomes)
	}
}

func TestMemkvSeedReplays(t *testing.T) {
	for _, seed := range seeds()[:min(40, len(seeds()))] {
		first := onMemkv(t, seed, sound)
		for range 3 {
			if diff := cmp.Diff(first.h.String(), onMemkv(t, seed, sound).h.String()); diff != "" {
				t.Fatalf("seed %d gave two histories:\n%s", seed, diff)
			}
		}
	}
}

// What a program does without receipts must be noticed, by both judges, or they are no judges.
func TestMemkvControls(t *testing.T) {
	for _, c := range []struct {
		policy policy
		fault  string
	}{
		{naive, "applied at ["},
		{hopeful, "told not applied, and it was"},
	} {
		ran, log, history := 0, 0, 0
		for _, seed := range seeds()[:min(20, len(seeds()))] {
			r := onMemkv(t, seed, c.policy)
			ran++
			if strings.Contains(strings.Join(r.faults, "\n"), c.fault) {
				log++
			}
			if !r.h.linearizable(t, fmt.Sprintf("%s-%d", c.policy, seed), r.log) {
				history++
			}
		}
		t.Logf("%s: of %d runs the log objects to %d and porcupine to %d", c.policy, ran, log, history)
		if log == 0 || history == 0 {
			t.Errorf("%s: went unnoticed: of %d runs the log objects to %d and porcupine to %d", c.policy, ran, log, history)
		}
	}
}
