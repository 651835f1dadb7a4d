package sqlcas

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
)

func (x tx) commit() error {
	if x.rig.pgx {
		return x.pgx.(pgx.Tx).Commit(context.Background())
	}
	return x.sql.(*sql.Tx).Commit()
}

// The function ends its transaction, and says something else of it. Nobody believes that.
func TestFunctionEndsTheTransaction(t *testing.T) {
	boom := errors.New("boom")
	each(t, func(t *testing.T, r *rig) {
		c := r.client(t, options{}).install(t)
		byText := func(x tx) error { return x.exec(t.Context(), "COMMIT") }
		for _, test := range []struct {
			name string
			end  func(tx) error
			says error
		}{
			{"COMMIT, and an error", byText, boom},
			{"COMMIT, and one that says that it is not applied", byText, sqlcas.ErrMissing},
			{"COMMIT, and none", byText, nil},
			{"Commit, and an error", tx.commit, boom},
			{"Commit, and one that says that it is not applied", tx.commit, sqlcas.ErrMissing},
			{"Commit, and none", tx.commit, nil},
		} {
			before := r.number(t, "SELECT balance FROM {account} WHERE id = 1")
			err := c.retry(t.Context(), func(x tx) error {
				if err := x.add(t.Context(), 1, 1); err != nil {
					return err
				}
				if err := test.end(x); err != nil {
					t.Error(err)
				}
				return test.says
			})
			r.wantBalance(t, 1, before+1)
			want := cas.Uncertain
			if r.Dialect == sqlcas.Postgres && !r.pgx && test.name == "COMMIT, and none" {
				want = cas.Applied // that it was not for the function to do is not seen there
			}
			if got := cas.OutcomeOf(err); got != want {
				t.Errorf("%s: got %v (%s), want %s", test.name, err, got, want)
			}
		}
	})
}

// A function that leaves its transaction open, and fails, has applied nothing, whatever it returns.
func TestFunctionFails(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		c := r.client(t, options{tries: 1})
		var nothing *pgconn.PgError
		for name, fn := range map[string]func(tx) error{
			"an error of its own":       func(tx) error { return errors.New("boom") },
			"a nil pointer":             func(tx) error { return nothing },
			"a statement's error":       func(x tx) error { return x.exec(t.Context(), "UPDATE nowhere SET x = 1") },
			"a statement's, kept quiet": func(x tx) error { _ = x.exec(t.Context(), "UPDATE nowhere SET x = 1"); return errors.New("boom") },
		} {
			err := c.retry(t.Context(), func(x tx) error {
				if err := x.add(t.Context(), 1, 1); err != nil {
					return err
				}
				return fn(x)
			})
			if got := cas.OutcomeOf(err); err == nil || got != cas.NotApplied {
				t.Errorf("%s: got %T (%s), want an error that is not applied", name, err, got)
			}
		}
		r.wantBalance(t, 1, 100)
	})
}

// A guard vouches for the transaction in which it was refused, if that was open still, and for no other.
func TestGuardVouches(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		guard := r.guard(t)
		c := r.client(t, options{})
		for name, test := range map[string]struct {
			before func(tx) error
			want   cas.Outcome
		}{
			"refused":              {func(tx) error { return nil }, cas.NotApplied},
			"refused after COMMIT": {func(x tx) error { return x.exec(t.Context(), "COMMIT") }, cas.Uncertain},
			"refused after Commit": {tx.commit, cas.Uncertain},
			"refused elsewhere": {func(x tx) error {
				other := errors.New("none")
				_ = c.retry(t.Context(), func(y tx) error { other = guard(y); return other })
				if err := x.commit(); err != nil {
					t.Error(err)
				}
				return other
			}, cas.Uncertain},
		} {
			err := c.retry(t.Context(), func(x tx) error {
				if r.Dialect == sqlcas.SQLite && name == "refused elsewhere" {
					t.Log("one writer at a time: this one has written nothing")
				} else if err := x.add(t.Context(), 1, 1); err != nil {
					return err
				}
				if err := test.before(x); err != nil {
					return err
				}
				return guard(x)
			})
			if got := cas.OutcomeOf(err); err == nil || got != test.want {
				t.Errorf("%s: got %v (%s), want an error that is %s", name, err, got, test.want)
			}
			if !errors.Is(err, fence.ErrNotSealed) {
				t.Errorf("%s: got %v, want it to say what the guard said", name, err)
			}
		}
	})
}

// guard is one under a token that was never sealed.
func (r *rig) guard(t *testing.T) func(tx) error {
	t.Helper()
	c := r.client(t, options{})
	table := r.table + "_fence"
	t.Cleanup(func() {
		for _, stmt := range dialect.NewFence(r.Dialect, table).Drop {
			_, _ = r.db.ExecContext(context.Background(), stmt)
		}
	})
	if r.pgx {
		f, err := pgxfence.New(c.pgp, pgxfence.Config{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func(x tx) error { return f.Guard(t.Context(), x.pgx.(pgx.Tx), fencetest.Token(1)) }
	}
	f, err := fence.NewSQL(c.pool, r.Dialect, fence.SQLConfig{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(x tx) error { return f.Guard(t.Context(), x.sql.(*sql.Tx), fencetest.Token(1)) }
}
