package sqlcas

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/integration/sqltest"
)

// Counters by read and write, in transactions that see nothing of each other.
func TestRetryCountersLoseNothing(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		const workers, each = 8, 15
		ctx := t.Context()
		var mu sync.Mutex // guards conflicts
		conflicts := 0
		c := r.client(t, options{level: sql.LevelSerializable, tries: 1000, observe: func(e cas.Effort) {
			mu.Lock()
			defer mu.Unlock()
			conflicts += e.Conflicts
		}})
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					err := c.retry(ctx, func(x tx) error {
						n, err := x.number(ctx, "SELECT balance FROM {account} WHERE id = 1")
						if err != nil {
							return err
						}
						return x.exec(ctx, "UPDATE {account} SET balance = ? WHERE id = 1", n+1)
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d conflicts", conflicts)
		r.wantBalance(t, 1, 100+workers*each)
	})
}

// rendezvous lets two meet, once.
type rendezvous struct{ arrived [2]chan struct{} }

func newRendezvous() *rendezvous {
	return &rendezvous{[2]chan struct{}{make(chan struct{}), make(chan struct{})}}
}

func (r *rendezvous) meet(ctx context.Context, me int) {
	close(r.arrived[me])
	select {
	case <-r.arrived[1-me]:
	case <-ctx.Done():
	}
}

// Two take the same rows in opposite order. The database chooses a victim, whose transaction is run again.
func TestRetryDeadlock(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		if r.Dialect.String() == "SQLite" {
			t.Skip("one writer at a time")
		}
		ctx := t.Context()
		var mu sync.Mutex // guards conflicts
		conflicts := 0
		c := r.client(t, options{observe: func(e cas.Effort) {
			mu.Lock()
			defer mu.Unlock()
			conflicts += e.Conflicts
		}})
		both := newRendezvous()
		var wg sync.WaitGroup
		for me := range 2 {
			wg.Go(func() {
				tries := 0
				err := c.retry(ctx, func(x tx) error {
					if err := x.add(ctx, int64(1+me), 1); err != nil {
						return err
					}
					if tries++; tries == 1 {
						both.meet(ctx, me)
					}
					return x.add(ctx, int64(2-me), 1)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if conflicts == 0 {
			t.Error("no conflict: there was no deadlock")
		}
		r.wantBalance(t, 1, 102)
		r.wantBalance(t, 2, 102)
	})
}

// At least one of the accounts must stay above 0, and each of two takes everything from another, having looked
// that the rest suffices. One at a time, only the first may.
func TestRetryWriteSkew(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		r.exec(t, "DELETE FROM {account} WHERE id = 3")
		c := r.client(t, options{level: sql.LevelSerializable})
		both := newRendezvous()
		refused := errors.New("the rest would be nothing")
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for me := range 2 {
			wg.Go(func() {
				tries := 0
				errs[me] = c.retry(ctx, func(x tx) error {
					rest, err := x.number(ctx, "SELECT SUM(balance) FROM {account} WHERE id <> ?", 1+me)
					if err != nil {
						return err
					}
					if rest == 0 {
						return refused
					}
					if tries++; tries == 1 {
						both.meet(ctx, me)
					}
					return x.exec(ctx, "UPDATE {account} SET balance = 0 WHERE id = ?", 1+me)
				})
			})
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("got %v and %v, want one applied and one refused", errs[0], errs[1])
		}
		for _, err := range errs {
			if err != nil {
				wantIs(t, err, refused, cas.NotApplied)
			}
		}
		if rest := r.number(t, "SELECT SUM(balance) FROM {account}"); rest != 100 {
			t.Errorf("sum: got %d, want 100", rest)
		}
	})
}

func TestRetryFunctionError(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		c := r.client(t, options{})
		boom := errors.New("boom")
		ran := 0
		wantIs(t, c.retry(ctx, func(x tx) error {
			ran++
			if err := x.add(ctx, 1, 1); err != nil {
				return err
			}
			return boom
		}), boom, cas.NotApplied)
		func() {
			defer func() {
				if p := recover(); p != boom {
					t.Errorf("recovered %v, want boom", p)
				}
			}()
			_ = c.retry(ctx, func(x tx) error {
				ran++
				_ = x.add(ctx, 1, 1)
				panic(boom)
			})
		}()
		if ran != 2 {
			t.Errorf("the functions ran %d times, want 2", ran)
		}
		r.wantBalance(t, 1, 100)
		if err := c.retry(ctx, func(x tx) error { return x.add(ctx, 1, 1) }); err != nil { // no connection is held
			t.Error(err)
		}
	})
}

// A context that ends in the function leaves nothing applied, and says so.
func TestRetryContextEndsBeforeTheCommit(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		err := r.client(t, options{}).retry(ctx, func(x tx) error {
			err := x.add(ctx, 1, 1)
			cancel()
			return err
		})
		wantIs(t, err, context.Canceled, cas.NotApplied)
		r.wantBalance(t, 1, 100)
	})
}

// The function may swallow an error, but the transaction that has failed does not become half a one.
func TestRetrySwallowedErrorAppliesNothing(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		if r.Dialect.String() != "Postgres" {
			t.Skip("a failed statement leaves the transaction alive")
		}
		ctx := t.Context()
		ran := 0
		err := r.client(t, options{}).retry(ctx, func(x tx) error {
			ran++
			if err := x.add(ctx, 1, 1); err != nil {
				return err
			}
			_, _ = x.number(ctx, "SELECT balance / 0 FROM {account} WHERE id = 1")
			return nil
		})
		if err == nil || cas.OutcomeOf(err) != cas.NotApplied || ran != 1 {
			t.Errorf("got %v (%s) after %d runs, want an error, not applied, after one", err, cas.OutcomeOf(err), ran)
		}
		r.wantBalance(t, 1, 100)
	})
}

// A function that ends its own transaction takes the answer with it.
func TestRetryFunctionCommits(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		c := r.client(t, options{})
		for _, boom := range []error{nil, errors.New("boom")} {
			ran := 0
			err := c.retry(t.Context(), func(x tx) error {
				ran++
				if r.Dialect.String() == "Postgres" && x.rig.pgx {
					if err := x.pgx.(interface{ Commit(context.Context) error }).Commit(t.Context()); err != nil {
						t.Error(err)
					}
				} else if err := x.sql.(*sql.Tx).Commit(); err != nil {
					t.Error(err)
				}
				return boom
			})
			if err == nil || cas.OutcomeOf(err) != cas.Uncertain || ran != 1 {
				t.Errorf("function returned %v: got %v (%s) after %d runs, want an error, uncertain, after one", boom, err, cas.OutcomeOf(err), ran)
			}
		}
	})
}

// After a deadlock MySQL has rolled back, and goes on. What the function does then would be half of it.
func TestMariaDB_SwallowedDeadlockIsRefused(t *testing.T) {
	r := newRig(t, sqltest.MariaDB(t), false)
	c := r.client(t, options{}).install(t)
	ctx := t.Context()
	for name, call := range map[string]func(func(tx) error) error{
		"retry": func(fn func(tx) error) error { return c.retry(ctx, fn) },
		"once":  func(fn func(tx) error) error { return c.once(ctx, "op", fn) },
	} {
		ran := 0
		err := call(func(x tx) error {
			ran++
			if err := x.add(ctx, 1, 1); err != nil {
				return err
			}
			if err := r.deadlock(t, x); err == nil {
				t.Error("there was no deadlock")
			}
			return x.add(ctx, 1, 100) // as if nothing had happened
		})
		if err == nil || cas.OutcomeOf(err) == cas.Applied || ran != 1 {
			t.Errorf("%s: got %v (%s) after %d runs, want it refused", name, err, cas.OutcomeOf(err), ran)
		}
		r.wantBalance(t, 1, 100)
		r.wantBalance(t, 2, 100)
	}
}

// deadlock makes x, which holds account 1, the victim of a deadlock.
func (r *rig) deadlock(t *testing.T, x tx) error {
	t.Helper()
	other, err := r.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	// The other one has changed more, so it is not the victim.
	for _, stmt := range []string{
		"INSERT INTO {account} VALUES (5, 0, 1), (6, 0, 1), (7, 0, 1), (8, 0, 1)",
		"UPDATE {account} SET balance = 9 WHERE id = 2",
	} {
		if _, err := other.ExecContext(t.Context(), r.query(stmt)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = other.ExecContext(t.Context(), r.query("UPDATE {account} SET balance = 9 WHERE id = 1"))
	}()
	err = x.add(t.Context(), 2, 1)
	<-done
	return err
}

// The pool's connections come back as they were.
func TestMariaDB_SettingsAreRestored(t *testing.T) {
	r := newRig(t, sqltest.MariaDB(t), false)
	c := r.client(t, options{})
	c.pool.SetMaxOpenConns(1)
	ctx := t.Context()
	const settings = "SELECT @@autocommit * 1000000 + CONNECTION_ID() * 0"
	for name, fn := range map[string]func(tx) error{
		"applied": func(tx) error { return nil },
		"failed":  func(tx) error { return errors.New("boom") },
	} {
		err := c.retry(ctx, func(x tx) error {
			if n, err := x.number(ctx, settings); err != nil || n != 0 {
				t.Errorf("inside: got %d, %v, want autocommit off", n, err)
			}
			return fn(x)
		})
		if n, asked := c.direct().number(ctx, settings); asked != nil || n != 1000000 {
			t.Errorf("%s (%v): got %d, %v, want autocommit on", name, err, n, asked)
		}
	}
}

// kill ends a connection, and returns once it is gone.
func (r *rig) kill(t *testing.T, stmt string, id int64) {
	t.Helper()
	r.exec(t, fmt.Sprintf(stmt, id))
	alive := "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = ?"
	if r.Dialect.String() == "MySQL" {
		alive = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?"
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if r.number(t, alive, id) == 0 {
			return
		}
	}
	t.Fatal("the connection did not end")
}

// A pool hands out connections that the server has closed meanwhile.
func TestRetryReplacesDeadConnections(t *testing.T) {
	overNetwork(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		c := r.client(t, options{})
		me, kill := "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d)"
		if r.Dialect.String() == "MySQL" {
			me, kill = "SELECT CONNECTION_ID()", "KILL %d"
		}
		ran := 0
		err := c.retry(ctx, func(x tx) error {
			ran++
			if err := x.add(ctx, 1, 1); err != nil {
				return err
			}
			if ran > 1 {
				return nil
			}
			id, err := x.number(ctx, me)
			if err != nil {
				return err
			}
			r.kill(t, kill, id)
			return x.add(ctx, 1, 1) // finds out
		})
		if r.Dialect.String() == "MySQL" {
			// The driver has an error of its own for that, which is not known: nothing was applied, and no more is said.
			if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("got %v (%s), want an error, not applied", err, cas.OutcomeOf(err))
			}
			r.wantBalance(t, 1, 100)
		} else {
			if err != nil || ran != 2 {
				t.Errorf("got %v after %d runs, want it applied after 2", err, ran)
			}
			r.wantBalance(t, 1, 101)
		}
		if err := c.retry(ctx, func(x tx) error { return x.add(ctx, 2, 1) }); err != nil {
			t.Error(err)
		}
		r.wantBalance(t, 2, 101)
	})
}
