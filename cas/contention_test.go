package cas_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// Many clients update one key all the time, on a store whose commits take a millisecond. Most of the
// millisecond slots must be used, nobody may wait for long while newcomers pass by, and few commits may be
// in vain. The bounds are half and three times what was measured.
func TestUpdateUnderContention(t *testing.T) {
	for _, n := range []int{4, 16, 64} {
		synctest.Test(t, func(t *testing.T) {
			server := memkv.NewServer(memkv.Config{})
			const long = time.Second
			var mu sync.Mutex // guards took and tries
			var took []time.Duration
			tries := 0
			var wg sync.WaitGroup
			start := time.Now()
			for id := range n {
				wg.Go(func() {
					s := server.Client()
					defer s.Close()
					rng := rand.New(rand.NewPCG(1, uint64(id)))
					s.Intercept(func(c memkv.Call) memkv.Fate {
						half := 150 * time.Microsecond
						if len(c.Txn.Then) > 0 {
							half = 500 * time.Microsecond
						}
						some := func() time.Duration { return half/2 + time.Duration(rng.Int64N(int64(half))) }
						return memkv.Fate{Delay: some(), Reply: some()}
					})
					c := cas.UpdateConfig{Tries: 1 << 20, Observe: func(e cas.Effort) {
						mu.Lock()
						defer mu.Unlock()
						took = append(took, e.Took)
						tries += e.Tries
					}}
					for time.Since(start) < long {
						if _, err := cas.Update(t.Context(), s, "acct", add(1), c); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			slices.Sort(took)
			rate, each := float64(len(took))/long.Seconds(), float64(tries)/float64(len(took))
			p99, slowest := took[len(took)*99/100], took[len(took)-1]
			t.Logf("%d clients: %.0f updates/s, p99 %v, slowest %v, %.1f tries each", n, rate, p99, slowest, each)
			if limit := 500*time.Millisecond + time.Duration(n)*25*time.Millisecond; rate < 500 || slowest > limit || each > 15 {
				t.Errorf("%d clients: %.0f updates/s, want 500; slowest %v, want %v; %.1f tries each, want 15 at most", n, rate, slowest, limit, each)
			}
			s := server.Client()
			defer s.Close()
			if got := balance(t, s); got != len(took) {
				t.Errorf("%d updates made a balance of %d", len(took), got)
			}
		})
	}
}

// The first retries take what the conflict brought along, at once. Later ones wait, and read again.
func TestUpdateReadsAgainAfterAWait(t *testing.T) {
	for name, update := range map[string]func(ctx context.Context, s cas.KV, f func()) error{
		"Update": func(ctx context.Context, s cas.KV, f func()) error {
			return second(cas.Update(ctx, s, "acct", func(*account) error { f(); return nil }, cas.UpdateConfig{}))
		},
		"UpdateAll": func(ctx context.Context, s cas.KV, f func()) error {
			return second(cas.UpdateAll(ctx, s, "x", func(d *cas.Draft) (int, error) {
				err := cas.Write(d, "acct", account{})
				if err == nil {
					_, err = cas.Read[account](d, "other")
				}
				f()
				return 0, err
			}, cas.UpdateConfig{}))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			other := s.Server().Client()
			defer other.Close()
			var calls []string
			start := time.Now()
			s.Intercept(func(c memkv.Call) memkv.Fate {
				kind := "read"
				if len(c.Txn.Then) > 0 {
					kind = "commit"
				}
				if time.Since(start) > 0 { // a wait has been, and others have changed the key
					kind += " later"
				}
				calls = append(calls, kind)
				return memkv.Fate{}
			})
			runs := 0
			err := update(t.Context(), s, func() {
				if runs++; runs <= 4 {
					put(t, other, fmt.Sprintf(`{"balance":%d}`, runs))
				}
			})
			want := []string{"read", "commit", "commit", "commit", "commit", "read later", "commit later"}
			if name == "UpdateAll" {
				want = slices.Insert(want, 0, "read") // each key that is new
			}
			if err != nil || !slices.Equal(calls, want) {
				t.Errorf("%s: got %v, calls %q, want %q", name, err, calls, want)
			}
		})
	}
}

// Waits are drawn from all of 0 to the bound, or clients that met once meet again.
func TestUpdateWaitsAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		const bound = 2 * time.Millisecond
		var quarters [4]int
		for range 200 {
			c := cas.UpdateConfig{Tries: 5, Observe: func(e cas.Effort) { // three retries at once, one wait
				if e.Took < 0 || e.Took >= bound {
					t.Errorf("waited %v, want less than %v", e.Took, bound)
					return
				}
				quarters[e.Took*4/bound]++
			}}
			if _, err := cas.Update(t.Context(), s, "acct", func(*account) error { put(t, s, `{}`); return nil }, c); err == nil {
				t.Error("no conflict")
			}
		}
		for i, n := range quarters {
			if n < 20 { // 50 are to be expected
				t.Errorf("quarter %d of the bound was drawn %d times of 200: %d", i+1, n, quarters)
			}
		}
	})
}
