package fencetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// A holder is paused inside a transaction that has locked an account already. Its successor is not held
// up, and when the holder goes on, under a context that nothing ends, it is refused.
func testZombieInside(t T, x *fixture) {
	x.seal(t, Token(1))
	ctx := context.WithoutCancel(t.Context())
	zombie := x.begin(t)
	if err := zombie.Add(ctx, 2, 1); err != nil {
		t.Fatalf("%v", err)
	}
	x.seal(t, Token(2)) // does not wait for a transaction that has not passed its guard
	if err := x.add(t, Token(2), 1, 5); err != nil {
		t.Errorf("successor: %v", err)
	}
	if err := zombie.Add(ctx, 3, 17); err != nil {
		t.Errorf("an account that nobody else has touched: %v", err)
	}
	err := zombie.Guard(ctx, Token(1))
	wantFenced(t, err, Token(1), Token(2))
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
	if err := zombie.Commit(ctx); err == nil { // as if the error had been overlooked
		t.Errorf("the zombie's commit succeeded")
	}
	x.wantBalance(t, 1, 5)
	x.wantBalance(t, 2, 0)
	x.wantBalance(t, 3, 0)
}

// guarded returns a transaction that has added to an account and passed its guard.
func (x *fixture) guarded(t T, revision int64, account int) Tx {
	t.Helper()
	tx := x.begin(t)
	if err := tx.Add(t.Context(), account, 1); err != nil {
		t.Fatalf("Add: %v", err)
	}
	if err := tx.Guard(t.Context(), Token(revision)); err != nil {
		t.Fatalf("Guard: %v", err)
	}
	return tx
}

func testSealWaits(t T, x *fixture) {
	waits(t, x, func(ctx context.Context) error { return x.fence.Seal(ctx, Token(2)) })
}

func testSealAllWaits(t T, x *fixture) {
	waits(t, x, func(ctx context.Context) error { return x.fence.(GroupSealer).SealAll(ctx, Token(1).Group, 34) })
}

func waits(t T, x *fixture, seal func(context.Context) error) {
	t.Helper()
	x.seal(t, Token(1))
	tx := x.guarded(t, 1, 1)
	defer tx.Rollback(t.Context())

	short, cancel := context.WithTimeout(t.Context(), impatience)
	defer cancel()
	if err := seal(short); err == nil {
		t.Fatalf("Seal returned while a transaction had passed its guard and could still commit")
	}
	sealed := make(chan error, 1)
	go func() { sealed <- seal(t.Context()) }()
	if err := tx.Commit(t.Context()); err != nil {
		t.Errorf("Commit: %v", err)
	}
	if err := await(t, x, sealed); err != nil {
		t.Fatalf("Seal: %v", err)
	}
	x.wantBalance(t, 1, 1)
}

// abandon gives up a seal that waits for a transaction of Token(1).
func abandon(t T, x *fixture, seal func(context.Context) error) {
	t.Helper()
	x.seal(t, Token(1))
	tx := x.guarded(t, 1, 1)
	defer tx.Rollback(t.Context())
	short, cancel := context.WithTimeout(t.Context(), impatience)
	defer cancel()
	if err := seal(short); err == nil {
		t.Fatalf("Seal did not wait")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func testAbandonedSealAll(t T, x *fixture) {
	abandon(t, x, func(ctx context.Context) error { return x.fence.(GroupSealer).SealAll(ctx, Token(1).Group, 34) })
	var fenced *fence.FencedError
	if err := x.add(t, Token(1), 2, 1); !errors.As(err, &fenced) {
		t.Errorf("got %v, want a FencedError", err)
	}
	x.wantBalance(t, 2, 0)
}

func testAbandonedSeal(t T, x *fixture) {
	abandon(t, x, func(ctx context.Context) error { return x.fence.Seal(ctx, Token(2)) })
	wantFenced(t, x.add(t, Token(1), 2, 1), Token(1), Token(2))
	// What was given up may be under way at the server still.
	if err := x.add(t, Token(2), 3, 1); err != nil {
		wantIs(t, err, fence.ErrNotSealed)
	}
	if p, ok := x.fence.(Positional); ok {
		_, err := p.Position(t.Context(), Token(1), "orders")
		wantFenced(t, err, Token(1), Token(2))
	}
	x.wantBalance(t, 2, 0)
}

// At every moment some transaction has passed its guard: each holds on until the next one has passed. A
// seal that waited for a moment without one would wait for ever on a database where share locks
// overtake it.
func testNoStarvation(t T, x *fixture) {
	const sessions = 64
	x.seal(t, Token(1))
	ctx, cancel := context.WithTimeout(t.Context(), x.patience())
	defer cancel()
	var relay relay
	var wg, begun sync.WaitGroup
	begun.Add(sessions)
	for range sessions {
		wg.Go(func() {
			var first sync.Once
			defer first.Do(begun.Done)
			for {
				err := x.holdGuard(ctx, &relay)
				first.Do(begun.Done)
				if _, fenced := errors.AsType[*fence.FencedError](err); fenced || ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Errorf("guard: %v", err)
					return
				}
			}
		})
	}
	begun.Wait()
	start := time.Now()
	if err := x.fence.Seal(ctx, Token(2)); err != nil {
		t.Errorf("Seal under %d overlapping guards: %v", sessions, err)
	}
	t.Logf("Seal under %d overlapping guards took %s", sessions, time.Since(start).Round(time.Millisecond))
	cancel()
	wg.Wait()
}

// holdGuard keeps a guard passed until another one has passed, or none can.
func (x *fixture) holdGuard(ctx context.Context, r *relay) error {
	tx, err := x.transactional().Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if err := tx.Guard(ctx, Token(1)); err != nil {
		return err
	}
	select {
	case <-r.pass():
	case <-time.After(20 * time.Millisecond): // the next may be waiting behind the seal, which waits for this one
	case <-ctx.Done():
	}
	return tx.Commit(ctx)
}

// relay tells each runner when the next one has come.
type relay struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

func (r *relay) pass() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil {
		close(r.next)
	}
	r.next = make(chan struct{})
	return r.next
}

// testRace lets zombies write while their successor seals. What a reader sees right after the seal
// is all that there will ever be of theirs.
func testRace(t T, x *fixture) {
	x.seal(t, Token(1))
	const zombies = 3
	rounds := int64(12)
	if x.OneWriter {
		rounds = 4 // the seal has to find its turn among writers that never rest
	}
	var over atomic.Bool // a seal has failed: nobody will fence the zombies
	var wg sync.WaitGroup
	defer wg.Wait()
	defer over.Store(true)
	for round := int64(1); round <= rounds; round++ {
		var begun sync.WaitGroup
		var sealed atomic.Bool
		begun.Add(zombies)
		for z := range zombies {
			wg.Go(func() { x.writeUntilFenced(t, Token(round), z+1, begun.Done, &sealed, &over) })
		}
		begun.Wait()
		x.seal(t, Token(round+1))
		sealed.Store(true)
		var before [zombies]int
		for z := range zombies {
			before[z] = x.balance(t, z+1)
		}
		wg.Wait()
		for z := range zombies {
			if after := x.balance(t, z+1); after != before[z] {
				t.Errorf("round %d: balance %d became %d after Seal had returned", round, before[z], after)
				return
			}
		}
	}
}

func (x *fixture) writeUntilFenced(t T, tok shard.Token, account int, begun func(), sealed, over *atomic.Bool) {
	for n := 0; !over.Load(); n++ {
		late := sealed.Load()
		err := x.add(t, tok, account, 1)
		if n == 0 {
			begun()
		}
		_, fenced := errors.AsType[*fence.FencedError](err)
		switch {
		case fenced:
			return
		case err == nil && late:
			t.Errorf("a write that began after Seal had returned was accepted")
			return
		case err == nil:
		case x.level != "" && x.level == x.Serializable && cas.OutcomeOf(err) == cas.NotApplied:
			// There the database may refuse any of several transactions, and says to try again.
		default:
			t.Errorf("zombie: got %v, want nil until FencedError", err)
			return
		}
	}
}

// testCommitRace sends a zombie's commit while its successor seals, the guard having passed, now earlier
// and now later. Either the commit is in before Seal returns, or it fails.
func testCommitRace(t T, x *fixture) {
	const rounds = 20
	x.seal(t, Token(1))
	want, took := 0, time.Millisecond
	for round := int64(1); round <= rounds; round++ {
		tx := x.guarded(t, round, 1)
		committed := make(chan error, 1)
		later := time.After(rand.N(2 * took))
		go func() {
			<-later
			committed <- tx.Commit(t.Context())
		}()
		start := time.Now()
		x.seal(t, Token(round+1))
		took = max(took, min(time.Since(start), 20*time.Millisecond))
		seen := x.balance(t, 1)
		if err := await(t, x, committed); err == nil {
			want++
		}
		if after := x.balance(t, 1); seen != want || after != want {
			t.Errorf("round %d: balance %d once Seal had returned, %d once Commit had, want %d", round, seen, after, want)
			return
		}
	}
}

// testSnapshots: at the stricter levels a transaction sees the row as it was when it began.
func testSnapshots(t T, x *fixture) {
	x.seal(t, Token(1))
	err := x.transactional().Tx(t.Context(), Token(1), func(tx Tx) error {
		if err := tx.Add(t.Context(), 1, 1); err != nil {
			return err
		}
		if _, err := tx.Balance(t.Context(), 1); err != nil { // has a snapshot by now
			return err
		}
		x.seal(t, Token(2))
		return nil
	})
	wantFenced(t, err, Token(1), Token(2))
	x.wantBalance(t, 1, 0)
}

// testFreed: a process that stops inside a transaction holds its rows until the server ends it.
func testFreed(t T, x *fixture) {
	x.seal(t, Token(1))
	paused, wake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(t.Context())
		done <- x.transactional().Tx(ctx, Token(1), func(tx Tx) error {
			err := tx.Add(ctx, 1, 1)
			close(paused)
			<-wake
			return err
		})
	}()
	await(t, x, paused)
	x.seal(t, Token(2))
	start := time.Now()
	if err := x.add(t, Token(2), 1, 5); err != nil {
		t.Errorf("the zombie's row was not freed: %v", err)
	}
	t.Logf("a row held by a paused transaction was free after %s", time.Since(start).Round(time.Millisecond))
	close(wake)
	wantFenced(t, await(t, x, done), Token(1), Token(2))
	x.wantBalance(t, 1, 5)
}
