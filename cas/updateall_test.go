package cas_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// transfer moves n from one account to another, and returns what is left.
func transfer(from, to string, n int) func(*cas.Draft) (int, error) {
	return func(d *cas.Draft) (int, error) {
		a, err := cas.Read[account](d, from)
		if err != nil {
			return 0, err
		}
		b, err := cas.Read[account](d, to)
		if err != nil {
			return 0, err
		}
		if a.Balance < n {
			return 0, errPoor
		}
		a.Balance -= n
		b.Balance += n
		return a.Balance, errors.Join(cas.Write(d, from, a), cas.Write(d, to, b))
	}
}

var errPoor = errors.New("insufficient funds")

// fund gives each of keys a balance.
func fund(t *testing.T, s cas.KV, n int, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if _, err := cas.Update(t.Context(), s, key, func(a *account) error { a.Balance = n; return nil }, cas.UpdateConfig{}); err != nil {
			t.Fatal(err)
		}
	}
}

// balances reads them as of one revision.
func balances(t *testing.T, s cas.KV, keys ...string) []int {
	t.Helper()
	all, err := cas.UpdateAll(t.Context(), s, "balances", func(d *cas.Draft) (all []int, err error) {
		for _, key := range keys {
			a, err := cas.Read[account](d, key)
			if err != nil {
				return nil, err
			}
			all = append(all, a.Balance)
		}
		return all, nil
	}, cas.UpdateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestUpdateAllIsOneCommit(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	fund(t, s, 10, "a", "b")
	before := s.Server().Revision()
	left, err := cas.UpdateAll(t.Context(), s, "transfer", transfer("a", "b", 4), cas.UpdateConfig{})
	if err != nil || left != 6 {
		t.Fatalf("got %d, %v", left, err)
	}
	a, _ := s.Get(t.Context(), "a")
	b, _ := s.Get(t.Context(), "b")
	if a.Rev != before+1 || b.Rev != before+1 {
		t.Errorf("written at %d and %d, want both at %d", a.Rev, b.Rev, before+1)
	}
	if diff := cmp.Diff([]int{6, 14}, balances(t, s, "a", "b")); diff != "" {
		t.Error(diff)
	}
}

// Random transfers among accounts keep the sum, and no run of any function sees another, whether it
// is committed in the end or not.
func TestUpdateAllKeepsTheSumAndTearsNoRead(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			server := memkv.NewServer(memkv.Config{})
			keys := []string{"a", "b", "c", "d", "e"}
			const each = 100
			direct := server.Client()
			defer direct.Close()
			fund(t, direct, each, keys...)
			var wg sync.WaitGroup
			var mu sync.Mutex
			conflicts := 0
			for id := range 6 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(id)))
					s := server.Client()
					defer s.Close()
					s.Intercept(func(memkv.Call) memkv.Fate {
						return memkv.Fate{
							Delay: time.Duration(rng.IntN(3000)) * time.Microsecond,
							Reply: time.Duration(rng.IntN(3000)) * time.Microsecond,
							Loss:  memkv.Loss(max(0, rng.IntN(20)-16)),
						}
					})
					for n := range 15 {
						order := rng.Perm(len(keys))
						c := cas.UpdateConfig{Tries: 500, Observe: func(e cas.Effort) {
							mu.Lock()
							defer mu.Unlock()
							conflicts += e.Conflicts
						}}
						if rng.IntN(2) == 0 {
							c.Receipt = fmt.Sprintf("%d-%d", id, n)
						}
						_, err := cas.UpdateAll(t.Context(), s, "transfer", func(d *cas.Draft) (struct{}, error) {
							sum := 0
							all := make([]account, len(keys))
							for _, i := range order { // one round trip each, in the first run
								a, err := cas.Read[account](d, keys[i])
								if err != nil {
									return struct{}{}, err
								}
								all[i] = a
								sum += a.Balance
							}
							if sum != each*len(keys) {
								t.Errorf("a run saw %v, sum %d", all, sum)
							}
							from, to, n := order[0], order[1], rng.IntN(20)
							all[from].Balance -= n
							all[to].Balance += n
							return struct{}{}, errors.Join(cas.Write(d, keys[from], all[from]), cas.Write(d, keys[to], all[to]))
						}, c)
						if outcome := cas.OutcomeOf(err); outcome == cas.NotApplied || outcome == cas.Uncertain && c.Receipt != "" {
							t.Errorf("got %v", err)
						}
					}
				})
			}
			wg.Wait()
			sum := 0
			for _, n := range balances(t, direct, keys...) {
				sum += n
			}
			if sum != each*len(keys) {
				t.Errorf("the sum is %d, want %d", sum, each*len(keys))
			}
			if conflicts == 0 {
				t.Error("there was no conflict: this has shown nothing")
			}
		})
	}
}

// A key that is only read is a condition too, or two that each look at the other's would both pass.
func TestUpdateAllGuardsWhatItOnlyReads(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	fund(t, s, 1, "a", "b")
	withdraw := func(mine, other string, between func()) error {
		_, err := cas.UpdateAll(t.Context(), s, "withdraw", func(d *cas.Draft) (int, error) {
			a, err := cas.Read[account](d, mine)
			if err != nil {
				return 0, err
			}
			b, err := cas.Read[account](d, other)
			if err != nil {
				return 0, err
			}
			if a.Balance+b.Balance < 2 {
				return 0, errPoor
			}
			if between != nil {
				f := between
				between = nil
				f()
			}
			a.Balance--
			return a.Balance, cas.Write(d, mine, a)
		}, cas.UpdateConfig{})
		return err
	}
	err := withdraw("a", "b", func() {
		if err := withdraw("b", "a", nil); err != nil {
			t.Errorf("the other: %v", err)
		}
	})
	if !errors.Is(err, errPoor) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v, want insufficient funds: the other has taken it", err)
	}
	if diff := cmp.Diff([]int{1, 0}, balances(t, s, "a", "b")); diff != "" {
		t.Error(diff)
	}
}

func TestUpdateAllRefuses(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	fund(t, s, 10, "a")
	put(t, s, `nonsense`)
	before := s.Server().Revision()
	all := func(f func(d *cas.Draft) error) error {
		_, err := cas.UpdateAll(t.Context(), s, "x", func(d *cas.Draft) (int, error) {
			return 0, errors.Join(cas.Write(d, "a", account{}), f(d))
		}, cas.UpdateConfig{})
		return err
	}
	for name, err := range map[string]error{
		"no name":                         second(cas.UpdateAll(t.Context(), s, "", transfer("a", "b", 1), cas.UpdateConfig{})),
		"f's error":                       all(func(*cas.Draft) error { return fmt.Errorf("%w: %w", cas.ErrUncertain, errPoor) }),
		"empty key":                       all(func(d *cas.Draft) error { return d.Delete("") }),
		"unreadable":                      all(func(d *cas.Draft) error { return second(cas.Read[account](d, "acct")) }),
		"unreadable, and f does not mind": all(func(d *cas.Draft) error { _, _ = cas.Read[account](d, "acct"); return nil }),
		"unwritable, and f does not mind": all(func(d *cas.Draft) error { _ = cas.Write(d, "b", make(chan int)); return nil }),
		"too many keys": all(func(d *cas.Draft) error {
			keys := make([]string, 130)
			for i := range keys {
				keys[i] = fmt.Sprint(i)
			}
			return d.Fetch(keys...)
		}),
		"result without JSON": second(cas.UpdateAll(t.Context(), s, "x", func(d *cas.Draft) (chan int, error) {
			return nil, cas.Write(d, "a", account{})
		}, cas.UpdateConfig{Receipt: "op"})),
	} {
		if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: got error %v, outcome %q", name, err, cas.OutcomeOf(err))
		}
	}
	if now := s.Server().Revision(); now != before {
		t.Errorf("something was written")
	}
}

func TestUpdateAllFailedGuardEndsAtOnce(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	fund(t, s, 10, "a", "b")
	for _, write := range []bool{true, false} {
		runs := 0
		_, err := cas.UpdateAll(t.Context(), s, "x", func(d *cas.Draft) (int, error) {
			runs++
			a, err := cas.Read[account](d, "a")
			if err == nil && write {
				err = cas.Write(d, "a", a)
			}
			return 0, err
		}, cas.UpdateConfig{Guards: []cas.Cond{cas.AtRev("b", 1)}})
		if _, ok := errors.AsType[*cas.ConflictError](err); !ok || errors.Is(err, cas.ErrContended) || runs != 1 {
			t.Errorf("writes %v: got error %v after %d runs, want a conflict after 1", write, err, runs)
		}
	}
}

// The function runs in the goroutine of the caller, who can recover what it panics with.
func TestUpdateRunsItsFunctionInTheCallersGoroutine(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	for name, call := range map[string]func(){
		"Update": func() { _, _ = cas.Update(t.Context(), s, "k", func(*int) error { panic("f") }, cas.UpdateConfig{}) },
		"UpdateAll": func() {
			_, _ = cas.UpdateAll(t.Context(), s, "k", func(*cas.Draft) (int, error) { panic("f") }, cas.UpdateConfig{})
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != "f" {
					t.Errorf("%s: recovered %v", name, got)
				}
			}()
			call()
		}()
	}
}

func TestUpdateAllGivesUpAfterTriesAndObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		var took cas.Effort
		disturbed := func(d *cas.Draft) (int, error) {
			err := cas.Write(d, "acct", 1)
			put(t, s, `{}`)
			return 0, err
		}
		_, err := cas.UpdateAll(t.Context(), s, "x", disturbed, cas.UpdateConfig{Tries: 4, Observe: func(e cas.Effort) { took = e }})
		want := cas.Effort{Name: "x", Tries: 4, Conflicts: 4, Took: took.Took, Outcome: cas.NotApplied}
		if !errors.Is(err, cas.ErrContended) || cas.OutcomeOf(err) != cas.NotApplied || took != want {
			t.Errorf("got error %v, %+v", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = cas.UpdateAll(ctx, s, "x", disturbed, cas.UpdateConfig{Tries: 1 << 30})
		if !errors.Is(err, context.DeadlineExceeded) || cas.OutcomeOf(err) != cas.NotApplied || time.Since(start) != time.Second {
			t.Errorf("got error %v after %v", err, time.Since(start))
		}
	})
}
