package idem

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
)

// A caller that goes while the transaction commits is told whether it was committed, as long as the database answers. What it is
// told is true.
func TestCancelledWhileCommitting(t *testing.T) {
	viaSQL := func(d func(testing.TB) database) func(*testing.T) (*bank, idem.Store, doer) {
		return func(t *testing.T) (*bank, idem.Store, doer) {
			b := newBank(t, d(t))
			return b, b.store(t, b.db, sqlidem.Config{}), func(ctx context.Context, e *idem.Engine, q idem.Request, then func()) (int, error) {
				return sqlidem.DoTx(ctx, e, q, func(tx *sql.Tx) (int, error) {
					n, err := b.deposit(ctx, tx, "a")
					then()
					return n, err
				})
			}
		}
	}
	for name, open := range map[string]func(*testing.T) (*bank, idem.Store, doer){
		"SQLite": viaSQL(sqlite), "Postgres": viaSQL(postgres), "MariaDB": viaSQL(mariadb),
		"Pgx": func(t *testing.T) (*bank, idem.Store, doer) {
			b := newBank(t, postgres(t))
			return b, pgxStore(t, pgxPool(t, ""), pgxidem.Config{}, b.table), func(ctx context.Context, e *idem.Engine, q idem.Request, then func()) (int, error) {
				return pgxidem.DoTx(ctx, e, q, func(tx pgx.Tx) (int, error) {
					n, err := b.pgxDeposit(ctx, tx, "a")
					then()
					return n, err
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, s, do := open(t)
			e, err := idem.New(s, idem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			balance := 0
			took := time.Millisecond
			for i := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				var left time.Time
				got, err := do(ctx, e, idem.Request{Scope: "a", Key: fmt.Sprint(i)}, func() {
					left = time.Now()
					time.AfterFunc(rand.N(took), cancel)
				})
				cancel()
				switch {
				case err == nil:
					took = (7*took + time.Since(left)) / 8 // of what comes after the function
					balance++
					if got != balance {
						t.Fatalf("try %d: got balance %d, want %d", i, got, balance)
					}
				case cas.OutcomeOf(err) != cas.NotApplied:
					t.Fatalf("try %d: got %v (%s), want it found out whether it was committed", i, err, cas.OutcomeOf(err))
				}
			}
			if got := b.balance(t, "a"); got != balance {
				t.Errorf("balance: got %d, want %d, as callers were told", got, balance)
			}
			t.Logf("%d of 200 were committed; what comes after the function takes %v", balance, took)
		})
	}
}

// doer is a DoTx whose function calls then at its end.
type doer func(ctx context.Context, e *idem.Engine, q idem.Request, then func()) (int, error)
