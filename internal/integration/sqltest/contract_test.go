package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/shard"
)

// installer is what fence.SQL and pgxfence.Fence share beyond what the suite asks for.
type installer interface {
	fencetest.Transactional
	Install(ctx context.Context) error
}

// accountsOf returns what is behind a fence of the suite's.
func accountsOf(f fencetest.Fence) *accounts {
	switch f := f.(type) {
	case *sqlFence:
		return f.accounts
	case *pgxFence:
		return f.accounts
	}
	panic("not a fence in a database")
}

func (a *accounts) exec(t *testing.T, stmt string) {
	t.Helper()
	if _, err := a.db.ExecContext(t.Context(), stmt); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

func wantBalance(t *testing.T, f fencetest.Fence, account, want int) {
	t.Helper()
	if got, err := f.Balance(t.Context(), account); err != nil || got != want {
		t.Errorf("balance of account %d: got %d, %v, want %d", account, got, err, want)
	}
}

func mustSeal(t *testing.T, f fencetest.Fence, tok shard.Token) {
	t.Helper()
	if err := f.Seal(t.Context(), tok); err != nil {
		t.Fatal(err)
	}
}

func TestInstall(t *testing.T) {
	everySubject(t, func(t *testing.T, s fencetest.Subject) {
		f := s.New(t, fencetest.Options{}).(installer)
		a := accountsOf(f)
		mustSeal(t, f, token(1))
		if err := f.Install(t.Context()); err != nil {
			t.Errorf("second Install: %v", err)
		}
		if err := f.Add(t.Context(), token(1), 1, 1); err != nil {
			t.Errorf("after second Install: %v", err)
		}

		// Every process calls it as it starts.
		for _, stmt := range dialect.NewFence(a.server.Dialect, a.table).Drop {
			a.exec(t, stmt)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := f.Install(t.Context()); err != nil {
					t.Errorf("concurrent Install: %v", err)
				}
			})
		}
		wg.Wait()

		a.exec(t, "DROP TABLE "+a.table)
		a.exec(t, "CREATE TABLE "+a.table+" (something INTEGER)")
		if err := f.Install(t.Context()); err == nil {
			t.Error("Install over a table of other columns: got nil, want an error")
		}
	})
}

// Somebody has cleaned up by hand, in one of the two tables. The next tenure mends that.
func TestI6_SealMendsMissingRows(t *testing.T) {
	everySubject(t, func(t *testing.T, s fencetest.Subject) {
		f := s.New(t, fencetest.Options{})
		a := accountsOf(f)
		mustSeal(t, f, token(1))
		for i, suffix := range []string{"", "_wanted"} {
			now, next := token(int64(i)+1), token(int64(i)+2)
			a.exec(t, "DELETE FROM "+a.table+suffix)
			if a.server.Dialect == fence.Postgres { // so that guards look at what was changed
				a.exec(t, "SELECT setval('"+a.table+"_generation', 1)")
			}
			if err := f.Add(t.Context(), now, 1, 1); !errors.Is(err, fence.ErrNotSealed) {
				t.Errorf("got %v, want ErrNotSealed", err)
			}
			mustSeal(t, f, next)
			if err := f.Add(t.Context(), next, 2, 1); err != nil {
				t.Errorf("sealed again: %v", err)
			}
		}
		wantBalance(t, f, 1, 0)
		wantBalance(t, f, 2, 2)
	})
}

// Whatever asks the database outside of the transaction must not wait for the connection that the
// transaction has.
func TestOneConnection(t *testing.T) {
	everySubject(t, func(t *testing.T, s fencetest.Subject) {
		f := s.New(t, fencetest.Options{}).(fencetest.Transactional)
		accountsOf(f).db.SetMaxOpenConns(1)
		if p, ok := f.(*pgxFence); ok {
			c := p.pool.Config()
			c.MaxConns = 1
			pool, err := pgxpool.NewWithConfig(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			again, err := pgxfence.New(pool, p.conf)
			if err != nil {
				t.Fatal(err)
			}
			f = &pgxFence{accounts: p.accounts, Fence: again, pool: pool, conf: p.conf, o: p.o}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := f.Seal(ctx, token(5)); err != nil {
			t.Fatal(err)
		}
		if err := f.Add(ctx, token(5), 1, 1); err != nil {
			t.Error(err)
		}
		if _, ok := errors.AsType[*fence.FencedError](f.Add(ctx, token(4), 1, 1)); !ok {
			t.Error("want FencedError")
		}
		tx, err := f.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := errors.AsType[*fence.FencedError](tx.Guard(ctx, token(4))); !ok {
			t.Error("want FencedError")
		}
		if n := accountsOf(f).db.Stats().InUse; n != 0 {
			t.Errorf("%d connections still in use", n)
		}
	})
}

// fn overlooks that the context has ended. database/sql's transaction is rolled back then, not when fn returns.
func TestSQL_ContextEndsUnderFunction(t *testing.T) {
	for name, server := range map[string]func(testing.TB) Server{"SQLite": SQLite, "Postgres": Postgres, "MariaDB": MariaDB} {
		t.Run(name, func(t *testing.T) {
			f := sqlSubject(server(t)).New(t, fencetest.Options{}).(*sqlFence)
			mustSeal(t, f, token(5))
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			defer cancel()
			var last error
			err := f.Tx(ctx, token(5), func(tx fencetest.Tx) error {
				for deadline := time.Now().Add(30 * time.Second); last == nil && time.Now().Before(deadline); {
					last = tx.Add(context.Background(), 1, 1)
				}
				return last
			})
			if !errors.Is(last, sql.ErrTxDone) {
				t.Errorf("the last statement: got %v, want ErrTxDone", last)
			}
			if got := cas.OutcomeOf(err); err == nil || got != cas.NotApplied {
				t.Errorf("rolled back under fn: got %v (%s), want an error that is not applied", err, got)
			}
			wantBalance(t, f, 1, 0)
		})
	}
}

func TestSQL_EndedByFunction(t *testing.T) {
	for name, server := range map[string]func(testing.TB) Server{"SQLite": SQLite, "Postgres": Postgres, "MariaDB": MariaDB} {
		t.Run(name, func(t *testing.T) {
			f := sqlSubject(server(t)).New(t, fencetest.Options{}).(*sqlFence)
			mustSeal(t, f, token(5))
			for _, fnErr := range []error{nil, errors.New("and failed")} {
				for _, cancels := range []bool{false, true} { // if ctx ends as well, fn is still the one who ended it
					ctx, cancel := context.WithCancel(t.Context())
					err := f.Tx(ctx, token(5), func(tx fencetest.Tx) error {
						if err := tx.Add(t.Context(), 1, 1); err != nil {
							return err
						}
						if err := tx.Commit(t.Context()); err != nil {
							return err
						}
						if cancels {
							cancel()
						}
						return fnErr
					})
					cancel()
					if err == nil || cas.OutcomeOf(err) != cas.Uncertain {
						t.Errorf("fn returned %v, context ended: %t: got %v (%s), want an error that is uncertain",
							fnErr, cancels, err, cas.OutcomeOf(err))
					}
				}
			}
			wantBalance(t, f, 1, 4)
		})
	}
}

func TestPgx_EndedByFunction(t *testing.T) {
	f := pgxSubject(t, pgxFenceOptions{}).New(t, fencetest.Options{}).(*pgxFence)
	mustSeal(t, f, token(5))
	ctx := t.Context()
	add := f.add(1, 1)
	for _, test := range []struct {
		name    string
		fn      func(pgx.Tx) error
		outcome cas.Outcome
		want    int // of the balance
	}{
		{"Commit", func(tx pgx.Tx) error { _ = tx.Commit(ctx); return nil }, cas.NotApplied, 0},
		{"Rollback", func(tx pgx.Tx) error { _ = tx.Rollback(ctx); return nil }, cas.NotApplied, 0},
		{"a failed statement, swallowed", func(tx pgx.Tx) error { _, _ = tx.Exec(ctx, "SELECT 1 / 0"); return nil }, cas.NotApplied, 0},
		{"rows left open", func(tx pgx.Tx) error { _, err := tx.Query(ctx, "SELECT 1"); return err }, cas.NotApplied, 0},
		{"SQL that rolls back", func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "ROLLBACK"); return err }, cas.Uncertain, 0},
		{"SQL that commits", func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT"); return err }, cas.Uncertain, 1},
	} {
		err := f.Fence.Tx(ctx, token(5), func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, add); err != nil {
				return err
			}
			return test.fn(tx)
		})
		if err == nil || cas.OutcomeOf(err) != test.outcome {
			t.Errorf("%s: got %v (%s), want an error that is %s", test.name, err, cas.OutcomeOf(err), test.outcome)
		}
		wantBalance(t, f, 1, test.want)
	}

	// A savepoint is fn's own.
	var kept, nested pgx.Tx
	err := f.Fence.Tx(ctx, token(5), func(tx pgx.Tx) error {
		kept = tx
		for i := range 2 {
			sp, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			nested = sp
			if _, err := sp.Exec(ctx, f.add(2, 1+i)); err != nil {
				return err
			}
			if i == 0 {
				err = sp.Rollback(ctx)
			} else {
				err = sp.Commit(ctx)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantBalance(t, f, 2, 2)

	// Who keeps the transaction writes nothing on a connection that is somebody else's by now.
	for name, tx := range map[string]pgx.Tx{"transaction": kept, "savepoint": nested} {
		_, beginErr := tx.Begin(ctx)
		_, execErr := tx.Exec(ctx, add)
		_, queryErr := tx.Query(ctx, add)
		_, prepareErr := tx.Prepare(ctx, "stray", add)
		_, copyErr := tx.CopyFrom(ctx, pgx.Identifier{f.table + "_account"}, nil, nil)
		var n int
		for what, err := range map[string]error{
			"Begin": beginErr, "Exec": execErr, "Query": queryErr, "Prepare": prepareErr, "CopyFrom": copyErr,
			"QueryRow":  tx.QueryRow(ctx, add).Scan(&n),
			"SendBatch": tx.SendBatch(ctx, &pgx.Batch{}).Close(),
			"Commit":    tx.Commit(ctx), "Rollback": tx.Rollback(ctx),
		} {
			if !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s of a kept %s: got %v, want ErrTxClosed", what, name, err)
			}
		}
	}
	wantBalance(t, f, 1, 1)
}
