package sqlcas

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/integration/sqltest"
)

func TestOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		var efforts []cas.Effort
		c := r.client(t, options{observe: func(e cas.Effort) { efforts = append(efforts, e) }}).install(t)
		for range 3 {
			if err := c.once(ctx, "op", func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
				t.Error(err)
			}
		}
		r.wantBalance(t, 1, 101)
		for i, e := range efforts {
			if want := 1 - min(i, 1); e.Tries != want || e.Name != "op" || e.Outcome != cas.Applied {
				t.Errorf("effort %d: got %+v, want %d tries of op, applied", i, e, want)
			}
		}
		// Another id, however alike, is another operation.
		for _, id := range []string{"OP", "op ", " op", "öp", strings.Repeat("x", 256)} {
			if err := c.once(ctx, id, func(x tx) error { return x.add(ctx, 2, 1) }); err != nil {
				t.Errorf("%q: %v", id, err)
			}
		}
		r.wantBalance(t, 2, 105)
		for _, id := range []string{"", "@horizon", "@2026", "a\x00", "\xff", strings.Repeat("x", 257)} {
			err := c.once(ctx, id, func(tx) error { t.Errorf("%.20q: the function ran", id); return nil })
			wantIs(t, err, cas.ErrInvalid, cas.NotApplied)
		}
	})
}

// The function's failure takes the receipt with it.
func TestOnceFunctionErrorLeavesNoReceipt(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		c := r.client(t, options{}).install(t)
		boom := errors.New("boom")
		wantIs(t, c.once(ctx, "op", func(tx) error { return boom }), boom, cas.NotApplied)
		if err := c.once(ctx, "op", func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
			t.Error(err)
		}
		r.wantBalance(t, 1, 101)
	})
}

// Many callers of one operation at once: it is applied once, and all of them are told so.
func TestOnceCallersOfOneOperation(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, level := range r.Levels {
			t.Run(level.String(), func(t *testing.T) {
				ctx := t.Context()
				before := r.number(t, "SELECT balance FROM {account} WHERE id = 1")
				c := r.client(t, options{level: level, tries: 100}).install(t)
				const ops, callers = 6, 8
				var wg sync.WaitGroup
				for op := range ops {
					if op%2 == 1 { // what an abort has left is taken over by one of them
						if got, err := c.resolve(ctx, fmt.Sprint(level, op)); got != cas.NotApplied || err != nil {
							t.Errorf("Resolve: got %s, %v", got, err)
						}
					}
					for range callers {
						wg.Go(func() {
							err := c.once(ctx, fmt.Sprint(level, op), func(x tx) error { return x.add(ctx, 1, 1) })
							if err != nil {
								t.Errorf("%s: %v", level, err)
							}
						})
					}
				}
				wg.Wait()
				r.wantBalance(t, 1, before+ops)
			})
		}
	})
}

// A try that was aborted may be tried again, and Resolve tells each time how it stands.
func TestResolve(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		c := r.client(t, options{}).install(t)
		want := func(want cas.Outcome) {
			t.Helper()
			if got, err := c.resolve(ctx, "op"); got != want || err != nil {
				t.Errorf("Resolve: got %s, %v, want %s", got, err, want)
			}
		}
		want(cas.NotApplied)
		want(cas.NotApplied)
		if err := c.once(ctx, "op", func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
			t.Error(err)
		}
		want(cas.Applied)
		if err := c.once(ctx, "op", func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
			t.Error(err)
		}
		want(cas.Applied)
		r.wantBalance(t, 1, 101)
		if got, err := c.resolve(ctx, ""); got != cas.Uncertain || cas.OutcomeOf(err) != cas.Uncertain {
			t.Errorf("no id: got %s, %v", got, err)
		}
	})
}

// A transaction of the operation that has begun again after an abort holds its receipt, too.
func TestResolveWaitsForATryThatTookOverAnAbort(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		c := r.client(t, options{}).install(t)
		if got, err := c.resolve(ctx, "op"); got != cas.NotApplied || err != nil {
			t.Fatalf("got %s, %v", got, err)
		}
		inside, resolved := make(chan struct{}), make(chan struct{})
		var outcome cas.Outcome
		var err error
		go func() {
			defer close(resolved)
			<-inside
			outcome, err = c.resolve(ctx, "op")
		}()
		var once sync.Once
		if err := c.once(ctx, "op", func(x tx) error {
			once.Do(func() { close(inside) })
			select {
			case <-resolved:
				t.Error("Resolve did not wait")
			case <-time.After(impatience):
			}
			return x.add(ctx, 1, 1)
		}); err != nil {
			t.Error(err)
		}
		<-resolved
		if outcome != cas.Applied || err != nil {
			t.Errorf("got %s, %v, want applied", outcome, err)
		}
		r.wantBalance(t, 1, 101)
	})
}

// impatience is how long something must not happen.
const impatience = 200 * time.Millisecond

// A receipt that could not be had in time is not taken for one that was.
func TestMariaDB_OnceLockWaitTimeout(t *testing.T) {
	r := newRig(t, sqltest.MariaDB(t), false)
	ctx := t.Context()
	c := r.client(t, options{tries: 2}).install(t)
	c.pool.SetMaxOpenConns(1)
	if err := c.direct().exec(ctx, "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	err := r.client(t, options{}).once(ctx, "op", func(x tx) error {
		if err := x.add(ctx, 1, 1); err != nil {
			return err
		}
		err := c.once(ctx, "op", func(tx) error { t.Error("two ran at once"); return nil })
		wantIs(t, err, cas.ErrContended, cas.NotApplied)
		if outcome, err := c.resolve(ctx, "op"); outcome != cas.Uncertain || err == nil {
			t.Errorf("Resolve: got %s, %v, want uncertain", outcome, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	r.wantBalance(t, 1, 101)
}

func TestSweep(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		c := r.client(t, options{}).install(t)
		old, young := time.Now().Add(-2*time.Hour), time.Now().Add(-time.Minute)
		add := func(x tx) error { return x.add(ctx, 1, 1) }
		apply := func(id string) {
			t.Helper()
			if err := c.once(ctx, id, add); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		const many = 300 // more than two transactions delete
		for n := range many {
			apply(cas.Dated(old, fmt.Sprint(n)))
		}
		apply(cas.Dated(young, "a"))
		apply("undated")
		if got, err := c.resolve(ctx, cas.Dated(old, "aborted")); got != cas.NotApplied || err != nil {
			t.Fatalf("got %s, %v", got, err)
		}

		if n, err := c.sweep(ctx, time.Second); n != 0 || !errors.Is(err, cas.ErrInvalid) {
			t.Errorf("an age of a second: got %d, %v", n, err)
		}
		if n, err := c.sweep(ctx, time.Hour); n != many+1 || err != nil {
			t.Errorf("got %d, %v, want %d", n, err, many+1)
		}
		if n, err := c.sweep(ctx, time.Hour); n != 0 || err != nil {
			t.Errorf("again: got %d, %v, want none", n, err)
		}
		if n := r.number(t, "SELECT COUNT(*) FROM {account}_receipt"); n != 3 {
			t.Errorf("%d rows are left, want the horizon and two receipts", n)
		}

		// What is forgotten is never done again, for it may have been.
		for _, id := range []string{cas.Dated(old, "0"), cas.Dated(old, "never")} {
			wantIs(t, c.once(ctx, id, add), cas.ErrReceiptExpired, cas.Uncertain)
			if got, err := c.resolve(ctx, id); got != cas.Uncertain || !errors.Is(err, cas.ErrReceiptExpired) {
				t.Errorf("Resolve of a swept one: got %s, %v", got, err)
			}
		}
		if n := r.number(t, "SELECT COUNT(*) FROM {account}_receipt"); n != 3 {
			t.Errorf("%d rows, want 3: the expired ones have left something", n)
		}
		apply(cas.Dated(young, "a"))
		apply("undated")
		apply(cas.Dated(young, "b"))
		r.wantBalance(t, 1, 100+many+3)

		// A sweep that is asked for less does not lower the horizon.
		if _, err := c.sweep(ctx, 1000*time.Hour); err != nil {
			t.Error(err)
		}
		wantIs(t, c.once(ctx, cas.Dated(old, "0"), add), cas.ErrReceiptExpired, cas.Uncertain)
	})
}

// A receipt that outlives the horizon still says what it knows.
func TestReceiptBeyondTheHorizonTells(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		c := r.client(t, options{}).install(t)
		old := time.Now().Add(-2 * time.Hour)
		applied, aborted := cas.Dated(old, "applied"), cas.Dated(old, "aborted")
		if err := c.once(ctx, applied, func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
			t.Fatal(err)
		}
		if got, err := c.resolve(ctx, aborted); got != cas.NotApplied || err != nil {
			t.Fatalf("got %s, %v", got, err)
		}
		r.exec(t, "UPDATE {account}_receipt SET began = ? WHERE id = '@horizon'", time.Now().Unix())
		if err := c.once(ctx, applied, func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
			t.Error(err)
		}
		wantIs(t, c.once(ctx, aborted, func(x tx) error { return x.add(ctx, 1, 1) }), cas.ErrReceiptExpired, cas.NotApplied)
		for id, want := range map[string]cas.Outcome{applied: cas.Applied, aborted: cas.NotApplied} {
			if got, err := c.resolve(ctx, id); got != want || err != nil {
				t.Errorf("Resolve(%s): got %s, %v, want %s", id, got, err, want)
			}
		}
		r.wantBalance(t, 1, 101)
	})
}

// Sweeps and late retries meet: whatever their order, nothing is applied twice.
func TestSweepAgainstLateRetries(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, level := range r.Levels {
			t.Run(level.String(), func(t *testing.T) {
				ctx := t.Context()
				before := r.number(t, "SELECT balance FROM {account} WHERE id = 1")
				c := r.client(t, options{level: level, tries: 100}).install(t)
				r.exec(t, "DELETE FROM {account}_receipt WHERE id <> '@horizon'")
				r.exec(t, "UPDATE {account}_receipt SET began = 0")
				old := time.Now().Add(-2 * time.Hour)
				const ops, callers = 40, 3
				var applied atomic.Int64
				var swept atomic.Bool
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for op := range ops {
							ran := false
							err := c.once(ctx, cas.Dated(old, fmt.Sprint(level, op)), func(x tx) error {
								ran = true
								return x.add(ctx, 1, 1)
							})
							switch {
							case err == nil && ran:
								applied.Add(1)
							case err != nil && !errors.Is(err, cas.ErrReceiptExpired):
								t.Error(err)
							}
							if op == ops/2 && swept.CompareAndSwap(false, true) {
								if _, err := c.sweep(ctx, time.Hour); err != nil {
									t.Error(err)
								}
							}
						}
					})
				}
				wg.Wait()
				if applied.Load() == 0 || applied.Load() > ops {
					t.Errorf("%d operations were applied, of %d", applied.Load(), ops)
				}
				r.wantBalance(t, 1, before+applied.Load())
			})
		}
	})
}

// On Postgres at a stricter level the snapshot is from before the receipt is written. A sweep that has gone on since
// must not be missed.
func TestPostgres_SweepBehindTheSnapshot(t *testing.T) {
	for _, viaPgx := range []bool{false, true} {
		r := newRig(t, sqltest.Postgres(t), viaPgx)
		ctx := t.Context()
		old := cas.Dated(time.Now().Add(-2*time.Hour), "op")
		for _, level := range r.Levels {
			c := r.client(t, options{level: level}).install(t)
			r.exec(t, "DELETE FROM {account}_receipt WHERE id <> '@horizon'")
			r.exec(t, "UPDATE {account}_receipt SET began = 0")
			if err := c.once(ctx, old, func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
				t.Fatal(err)
			}
			// Somebody holds the receipt for deletion, and the insert, with its snapshot, waits for that.
			other, err := r.db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.ExecContext(ctx, r.query("DELETE FROM {account}_receipt WHERE id <> '@horizon'")); err != nil {
				t.Fatal(err)
			}
			result := make(chan error, 1)
			go func() {
				result <- c.once(ctx, old, func(tx) error { t.Errorf("%s: applied twice", level); return nil })
			}()
			r.waitLocked(t)
			r.exec(t, "UPDATE {account}_receipt SET began = ? WHERE id = '@horizon'", time.Now().Unix())
			if err := other.Commit(); err != nil {
				t.Fatal(err)
			}
			wantIs(t, <-result, cas.ErrReceiptExpired, cas.Uncertain)
		}
	}
}

// waitLocked waits until a statement about this test's tables waits for a lock.
func (r *rig) waitLocked(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if r.number(t, "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{account}%'") == 1 {
			return
		}
	}
	t.Fatal("nobody waited")
}

func TestSweepUsesAnIndex(t *testing.T) {
	r := newRig(t, sqltest.Postgres(t), false)
	r.client(t, options{}).install(t)
	r.exec(t, "INSERT INTO {account}_receipt SELECT 'op-' || n, 'applied', n, n FROM generate_series(1, 20000) n")
	r.exec(t, "ANALYZE {account}_receipt")
	var plan string
	rows, err := r.db.QueryContext(t.Context(), r.query("EXPLAIN SELECT id FROM {account}_receipt WHERE began < 300 AND id <> '@horizon' ORDER BY began LIMIT 128"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan += line + "\n"
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan, "_began") {
		t.Errorf("the plan uses no index:\n%s", plan)
	}
}

func TestInstallByManyAtOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		for range 8 {
			c := r.client(t, options{})
			wg.Go(func() { c.install(t) })
		}
		wg.Wait()
		c := r.client(t, options{}).install(t)
		if err := c.once(t.Context(), "op", func(x tx) error { return x.add(t.Context(), 1, 1) }); err != nil {
			t.Error(err)
		}
		c.install(t)
		if got, err := c.resolve(t.Context(), "op"); got != cas.Applied || err != nil {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

// Without the table nothing is applied, and the error says what is missing.
func TestOnceWithoutItsTable(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		c := r.client(t, options{})
		err := c.once(t.Context(), "op", func(tx) error { t.Error("the function ran"); return nil })
		if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v (%s), want an error, not applied", err, cas.OutcomeOf(err))
		}
		if got, err := c.resolve(t.Context(), "op"); got != cas.Uncertain || err == nil {
			t.Errorf("Resolve: got %s, %v", got, err)
		}
	})
}

// What one package has begun, the other resolves.
func TestPostgres_ReceiptsAreShared(t *testing.T) {
	r := newRig(t, sqltest.Postgres(t), false)
	ctx := t.Context()
	bySQL := r.client(t, options{}).install(t)
	native := *r
	native.pgx = true
	byPgx := native.client(t, options{})
	if err := bySQL.once(ctx, "op", func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
		t.Fatal(err)
	}
	if err := byPgx.once(ctx, "op", func(x tx) error { return x.add(ctx, 1, 1) }); err != nil {
		t.Error(err)
	}
	if got, err := byPgx.resolve(ctx, "op"); got != cas.Applied || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	r.wantBalance(t, 1, 101)
}
