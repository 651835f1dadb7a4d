package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/shard"
)

// small is a group with few shards, so that each has several accounts.
var small = shard.Group{Name: "accounts", Shards: 4}

// faulty is a vault whose writes fail as they are told to.
type faulty struct {
	vault
	lose   atomic.Bool // the next write is applied, and its reply lost
	refuse atomic.Bool // the next write is not applied
	writes atomic.Int64
}

var errPlug = errors.New("somebody pulled the plug")

func (f *faulty) write(ctx context.Context, tok shard.Token, balances map[string]int64, entries []entry) error {
	f.writes.Add(1)
	if f.refuse.Swap(false) {
		return writer.NotApplied(errPlug)
	}
	err := f.vault.write(ctx, tok, balances, entries)
	if err == nil && f.lose.Swap(false) {
		return fmt.Errorf("commit: %w: %w", cas.ErrUncertain, errPlug)
	}
	return err
}

func newLedgers(t *testing.T, nodes int) (*ownertest.Cluster, *ledger, *faulty) {
	t.Helper()
	v, err := openSQLite("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.close() })
	if err := v.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := &faulty{vault: v}
	l := newLedger(f) // one for all nodes: it keeps their tenures apart
	return ownertest.Start(t, nodes, small, l.serve, owner.Config{}), l, f
}

// applyAtOwner applies c at the node that owns its account.
func applyAtOwner(t *testing.T, cl *ownertest.Cluster, l *ledger, c change) (r receipt, err error) {
	t.Helper()
	err = cl.Nodes[cl.Owner(c.account)].Do(t.Context(), c.account, func(ctx context.Context, t *owner.Tenure) error {
		r, err = l.writer.Do(ctx, t, c)
		return err
	})
	return r, err
}

func stored(t *testing.T, v vault, account string) int64 {
	t.Helper()
	balances, _, err := v.read(t.Context(), []string{account}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return balances[account]
}

// A commit whose reply was lost ends the tenure, and the same operation again, under the next, is known there: I6 and what
// an operation id is for.
func TestLedger_LostReplyIsNotAppliedTwice(t *testing.T) {
	cl, l, v := newLedgers(t, 1)
	c := change{operation{"alice", "op"}, 10}
	before := cl.Tenure("alice").Token().Epoch
	v.lose.Store(true)
	if _, err := applyAtOwner(t, cl, l, c); cas.OutcomeOf(err) != cas.Uncertain {
		t.Fatalf("got %v, outcome %v, want uncertain", err, cas.OutcomeOf(err))
	}
	r, err := applyAtOwner(t, cl, l, c)
	if want := (receipt{10, true}); err != nil || r != want {
		t.Errorf("again: got %v %v, want %v", r, err, want)
	}
	if after := cl.Tenure("alice").Token().Epoch; after <= before {
		t.Errorf("epoch %v after %v: want a new tenure, since memory was in doubt", after, before)
	}
	if got := stored(t, v, "alice"); got != 10 {
		t.Errorf("stored: got %d, want 10", got)
	}
}

// A write that failed for certain is tried again, by the writer.
func TestLedger_RefusedWriteIsTriedAgain(t *testing.T) {
	cl, l, v := newLedgers(t, 1)
	before := cl.Tenure("alice").Token().Epoch
	v.refuse.Store(true)
	r, err := applyAtOwner(t, cl, l, change{operation{"alice", "op"}, 10})
	if want := (receipt{10, false}); err != nil || r != want || v.writes.Load() != 2 {
		t.Errorf("got %v %v after %d writes, want %v after 2", r, err, v.writes.Load(), want)
	}
	if after := cl.Tenure("alice").Token().Epoch; after != before {
		t.Errorf("epoch %v after %v: want the same tenure", after, before)
	}
}

// An owner that was replaced has old balances in memory, and they do no harm: its write is refused, and its own
// next tenure knows better. Nor does it answer from them.
func TestLedger_ZombieIsFenced(t *testing.T) { synctest.Test(t, zombieIsFenced) }

func zombieIsFenced(t *testing.T) {
	cl, l, v := newLedgers(t, 2)
	if _, err := applyAtOwner(t, cl, l, change{operation{"alice", "first"}, 10}); err != nil {
		t.Fatal(err)
	}
	zombie, old := cl.Tenure("alice"), cl.Owner("alice")
	book, err := l.book(zombie)
	if err != nil {
		t.Fatal(err)
	}
	cl.Lose("alice")
	cl.Settle()
	if _, err := applyAtOwner(t, cl, l, change{operation{"alice", "second"}, 10}); err != nil {
		t.Fatal(err)
	}
	_, err = l.settle(t.Context(), zombie.Token(), book, []change{{operation{"alice", "third"}, 1000}})
	if fenced, ok := errors.AsType[*fence.FencedError](err); !ok || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("the zombie's write: got %v, want %T", err, fenced)
	}
	time.Sleep(2 * time.Second) // until its trust is over for certain: its lease's time
	l.books.Store(zombie, book) // as for one that was stopped when it had found the book, and not looked into it
	if _, err := l.balance(t.Context(), zombie, "alice"); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("the zombie's read: got %v, want a refusal: it is not the owner any more", err)
	}
	if got := stored(t, v, "alice"); got != 20 {
		t.Errorf("stored: got %d, want 20", got)
	}
	cl.Cut(old, false)
	cl.Settle()
}

// Changes from many goroutines, with hand-offs between, add up; each receipt is what the account had just then.
func TestLedger_HandoffsLoseNothing(t *testing.T) {
	cl, l, v := newLedgers(t, 3)
	accounts := []string{"a", "b", "c", "d", "e", "f"}
	const clients, changes = 8, 40
	var (
		working sync.WaitGroup
		sums    [clients]map[string]int64
		failed  = make(chan error, clients)
	)
	stop := make(chan struct{})
	for i := range clients {
		sums[i] = make(map[string]int64)
		working.Go(func() {
			for n := range changes {
				account := accounts[rand.IntN(len(accounts))]
				c := change{operation{account, fmt.Sprintf("op-%d-%d", i, n)}, 1 + rand.Int64N(9)}
				if err := insist(t.Context(), cl.Nodes, l, c); err != nil {
					failed <- err
					return
				}
				sums[i][account] += c.amount
			}
		})
	}
	go func() {
		working.Wait()
		close(stop)
	}()
	for n := 0; ; n++ {
		select {
		case <-stop:
		default:
			cl.Move(accounts[n%len(accounts)], n%len(cl.Nodes))
			continue
		}
		break
	}
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	got, want := make(map[string]int64), make(map[string]int64)
	for _, account := range accounts {
		got[account] = stored(t, v, account)
		for _, s := range sums {
			want[account] += s[account]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored balances (-want +got):\n%s", diff)
	}
}

// insist asks one node after another until one owns the account.
func insist(ctx context.Context, nodes []*owner.Node, l *ledger, c change) error {
	for n := 0; ; n++ {
		err := nodes[n%len(nodes)].Do(ctx, c.account, func(ctx context.Context, t *owner.Tenure) error {
			_, err := l.writer.Do(ctx, t, c)
			return err
		})
		if _, no := errors.AsType[*owner.NotOwnerError](err); !no {
			return err
		}
	}
}

// Whatever a batch holds, what is said to its changes is what would be said to one after another, also when they come again.
func TestLedger_BatchIsOneAfterAnother(t *testing.T) {
	cl, l, _ := newLedgers(t, 1)
	tenure := cl.Tenure("alice")
	book, err := l.book(tenure)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var balance int64
	applied := make(map[operation]entry)
	for range 60 {
		var changes []change
		var want, got []string
		for range 1 + random.IntN(12) {
			c := change{operation{"alice", fmt.Sprint(random.IntN(150))}, random.Int64N(41) - 20}
			if c.amount == 0 {
				c.amount = most
			}
			changes = append(changes, c)
			before, known := applied[c.operation]
			after := balance + c.amount
			switch {
			case known && before.amount != c.amount:
				want = append(want, errReused.Error())
			case known:
				want = append(want, fmt.Sprint(receipt{before.balance, true}))
			case after < 0:
				want = append(want, errPoor.Error())
			case after > most:
				want = append(want, errRich.Error())
			default:
				balance, applied[c.operation] = after, entry{c.operation, c.amount, after}
				want = append(want, fmt.Sprint(receipt{after, false}))
			}
		}
		verdicts, err := l.settle(t.Context(), tenure.Token(), book, changes)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.err != nil {
				got = append(got, v.err.Error())
			} else {
				got = append(got, fmt.Sprint(v.receipt))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v: verdicts (-want +got):\n%s", changes, diff)
		}
	}
}
