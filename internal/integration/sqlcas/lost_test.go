package sqlcas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// overNetwork is each without SQLite.
func overNetwork(t *testing.T, run func(*testing.T, *rig)) {
	each(t, func(t *testing.T, r *rig) {
		if r.Addr == "" {
			t.Skip("no network in between")
		}
		run(t, r)
	})
}

var losses = map[string]struct {
	what    cut
	applied bool
}{
	"request lost": {loseRequest, false},
	"reply lost":   {loseReply, true},
}

// A client that tries again by itself applies twice. Here the outcome is said to be unknown, and nothing
// is tried again.
func TestCase_etcd14890_libpq939_LostCommitIsNotTriedAgain(t *testing.T) {
	overNetwork(t, func(t *testing.T, r *rig) {
		for name, loss := range losses {
			t.Run(name, func(t *testing.T) {
				before := r.number(t, "SELECT balance FROM {account} WHERE id = 1")
				var took cas.Effort
				c := r.client(t, options{addr: newCutter(t, r.Addr, first(loss.what)).addr, observe: func(e cas.Effort) { took = e }})
				ran := 0
				err := c.retry(t.Context(), func(x tx) error {
					ran++
					return x.add(t.Context(), 1, 1)
				})
				wantIs(t, err, cas.ErrUncertain, cas.Uncertain)
				if ran != 1 || took.Lost != 1 || took.Tries != 1 || took.Outcome != cas.Uncertain {
					t.Errorf("the function ran %d times, want once; effort %+v", ran, took)
				}
				if loss.applied {
					before++
				}
				r.eventuallyBalance(t, 1, before)
			})
		}
	})
}

// eventuallyBalance waits for a balance: the server may not have noticed yet that its client is gone.
func (r *rig) eventuallyBalance(t *testing.T, id, want int64) {
	t.Helper()
	var got int64
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if got = r.number(t, "SELECT balance FROM {account} WHERE id = ?", id); got == want {
			return
		}
	}
	t.Errorf("balance of account %d: got %d, want %d", id, got, want)
}

// Once knows its own lost try by the receipt.
func TestOnceDecidesALostCommit(t *testing.T) {
	overNetwork(t, func(t *testing.T, r *rig) {
		for name, loss := range losses {
			t.Run(name, func(t *testing.T) {
				before := r.number(t, "SELECT balance FROM {account} WHERE id = 1")
				c := r.client(t, options{addr: newCutter(t, r.Addr, first(loss.what)).addr})
				r.client(t, options{}).install(t)
				ran := 0
				err := c.once(t.Context(), "op "+name, func(x tx) error {
					ran++
					return x.add(t.Context(), 1, 1)
				})
				if err != nil {
					t.Errorf("got %v (%s), want it decided", err, cas.OutcomeOf(err))
				}
				if want := map[bool]int{true: 1, false: 2}[loss.applied]; ran != want {
					t.Errorf("the function ran %d times, want %d", ran, want)
				}
				r.wantBalance(t, 1, before+1)
			})
		}
	})
}

// The first try's reply is lost, and the client comes back, from elsewhere, with a payload that was made
// anew. What names the operation is its id, whatever the payload.
func TestCase_cockroach127301_RefreshedPayloadFindsItsFirstTry(t *testing.T) {
	overNetwork(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		cutOff := r.client(t, options{addr: newCutter(t, r.Addr, first(loseReply)).addr, tries: 1})
		elsewhere := r.client(t, options{}).install(t)
		err := cutOff.once(ctx, "payment-4711", func(x tx) error { return x.add(ctx, 1, 17) })
		wantIs(t, err, cas.ErrUncertain, cas.Uncertain)
		for range 2 {
			err = elsewhere.once(ctx, "payment-4711", func(x tx) error { return x.add(ctx, 1, 18) })
			if err != nil {
				t.Error(err)
			}
		}
		r.wantBalance(t, 1, 117)
		if got, err := elsewhere.resolve(ctx, "payment-4711"); got != cas.Applied || err != nil {
			t.Errorf("Resolve: got %s, %v, want applied", got, err)
		}
	})
}

// A COMMIT that is still under way is waited for, and nobody says meanwhile that it was not applied.
func TestResolveWaitsForACommitUnderWay(t *testing.T) {
	overNetwork(t, func(t *testing.T, r *rig) {
		for _, arrives := range []bool{true, false} {
			t.Run(fmt.Sprint("arrives=", arrives), func(t *testing.T) {
				ctx := t.Context()
				id := fmt.Sprint("op-", arrives)
				before := r.number(t, "SELECT balance FROM {account} WHERE id = 1")
				p := newCutter(t, r.Addr, first(delay))
				c := r.client(t, options{addr: p.addr, tries: 1})
				d := r.client(t, options{}).install(t)
				err := c.once(ctx, id, func(x tx) error { return x.add(ctx, 1, 1) })
				wantIs(t, err, cas.ErrUncertain, cas.Uncertain)
				<-p.delayed

				short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				if got, err := d.resolve(short, id); got != cas.Uncertain || cas.OutcomeOf(err) != cas.Uncertain || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Resolve while it is under way: got %s, %v, want uncertain, for time ran out", got, err)
				}
				r.wantBalance(t, 1, before)

				type answer struct {
					outcome cas.Outcome
					err     error
				}
				answers := make(chan answer, 1)
				go func() {
					outcome, err := d.resolve(ctx, id)
					answers <- answer{outcome, err}
				}()
				p.letThrough(arrives)
				want, balance := cas.NotApplied, before
				if arrives {
					want, balance = cas.Applied, before+1
				}
				if a := <-answers; a.outcome != want || a.err != nil {
					t.Errorf("Resolve: got %s, %v, want %s", a.outcome, a.err, want)
				}
				r.wantBalance(t, 1, balance)
			})
		}
	})
}

// The database can't be asked again: that is said, and asking later tells.
func TestOnceWithoutAnAnswerIsUncertain(t *testing.T) {
	overNetwork(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := r.client(t, options{addr: newCutter(t, r.Addr, func() cut { return loseReply }).addr})
		d := r.client(t, options{}).install(t)
		err := c.once(ctx, "op", func(x tx) error {
			defer context.AfterFunc(ctx, func() {})()
			return x.add(ctx, 1, 1)
		})
		if err != nil { // its second try found the receipt
			t.Errorf("got %v", err)
		}
		c = r.client(t, options{addr: newCutter(t, r.Addr, func() cut { cancel(); return loseReply }).addr})
		err = c.once(ctx, "op-2", func(x tx) error { return x.add(ctx, 1, 1) })
		wantIs(t, err, cas.ErrUncertain, cas.Uncertain)
		wantIs(t, err, context.Canceled, cas.Uncertain)
		if got, err := d.resolve(t.Context(), "op-2"); got == cas.Uncertain || err != nil {
			t.Errorf("Resolve: got %s, %v", got, err)
		}
	})
}

// Many operations, called by two clients each, over connections that break at every third COMMIT: each is
// applied once, and what was said of it is true.
func TestOnceUnderLosses(t *testing.T) {
	overNetwork(t, func(t *testing.T, r *rig) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		p := newCutter(t, r.Addr, func() cut { return []cut{loseRequest, loseReply, pass, pass, pass, pass}[rng.IntN(6)] })
		c := r.client(t, options{addr: p.addr, tries: 30})
		d := r.client(t, options{}).install(t)
		r.exec(t, "CREATE TABLE {account}_more (op INTEGER NOT NULL, caller INTEGER NOT NULL)")
		const workers, ops = 6, 60
		var mu sync.Mutex // guards the rest
		said := make(map[int][]cas.Outcome)
		next := 0
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for {
					mu.Lock()
					op := next / 2
					next++
					mu.Unlock()
					if op >= ops {
						return
					}
					err := c.once(t.Context(), fmt.Sprint("op-", op), func(x tx) error {
						if err := x.exec(t.Context(), "INSERT INTO {account}_more VALUES (?, ?)", op, w); err != nil {
							return err
						}
						return x.add(t.Context(), 1, 1)
					})
					mu.Lock()
					said[op] = append(said[op], cas.OutcomeOf(err))
					mu.Unlock()
					if err != nil {
						t.Logf("op %d: %v", op, err)
					}
				}
			})
		}
		wg.Wait()
		total := int64(0)
		for op := range ops {
			times := r.number(t, "SELECT COUNT(*) FROM {account}_more WHERE op = ?", op)
			outcome, err := d.resolve(t.Context(), fmt.Sprint("op-", op))
			if err != nil || times > 1 || (times == 1) != (outcome == cas.Applied) {
				t.Errorf("op %d: applied %d times, resolved as %s, %v", op, times, outcome, err)
			}
			for _, s := range said[op] {
				if s == cas.Applied && times == 0 {
					t.Errorf("op %d was said to be applied, and is not", op)
				}
			}
			total += times
		}
		r.wantBalance(t, 1, 100+total)
	})
}
