package sqlcas

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// A fence's guard as the last statement: what it refuses ends the effort, with nothing applied.
func TestOnceUnderAFence(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		if r.pgx {
			t.Skip("database/sql's guard")
		}
		for _, level := range r.Levels {
			t.Run(level.String(), func(t *testing.T) {
				ctx := t.Context()
				before := r.number(t, "SELECT balance FROM {account} WHERE id = 1")
				c := r.client(t, options{level: level}).install(t)
				fences, err := fence.NewSQL(r.db, r.Dialect, fence.SQLConfig{Table: r.table + "_fence"})
				if err != nil {
					t.Fatal(err)
				}
				if err := fences.Install(ctx); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					for _, stmt := range dialect.NewFence(r.Dialect, r.table+"_fence").Drop {
						_, _ = r.db.ExecContext(context.Background(), stmt)
					}
				})
				token := func(revision int64) shard.Token {
					return shard.Token{Group: "accounts" + level.String()[:4], GroupID: "9f86d081", Shard: 7, Epoch: 33<<48 | shard.Epoch(revision)}
				}
				seal := func(revision int64) {
					t.Helper()
					if err := fences.Seal(ctx, token(revision)); err != nil {
						t.Error(err)
					}
				}
				ran := 0
				under := func(revision int64, inside func()) func(tx) error {
					return func(x tx) error {
						ran++
						if err := x.add(ctx, 1, 1); err != nil {
							return err
						}
						inside()
						return fences.Guard(ctx, x.sql.(*sql.Tx), token(revision))
					}
				}
				seal(1)
				if err := c.once(ctx, "a "+level.String(), under(1, func() {})); err != nil {
					t.Error(err)
				}
				overtaken := func() {} // SQLite has one writer: nobody seals while it is open
				if r.Dialect != fence.SQLite {
					overtaken = func() { seal(2) }
				} else {
					seal(2)
				}
				ran = 0
				err = c.once(ctx, "b "+level.String(), under(1, overtaken))
				if _, fenced := errors.AsType[*fence.FencedError](err); !fenced || cas.OutcomeOf(err) != cas.NotApplied || ran != 1 {
					t.Errorf("got %v (%s) after %d runs, want it fenced, not applied, after one", err, cas.OutcomeOf(err), ran)
				}
				r.wantBalance(t, 1, before+1)
				if got, err := c.resolve(ctx, "b "+level.String()); got != cas.NotApplied || err != nil {
					t.Errorf("Resolve: got %s, %v, want not applied", got, err)
				}
			})
		}
	})
}
