package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

var servers = map[string]func(testing.TB) Server{"sqlite": SQLite, "postgres": Postgres, "mariadb": MariaDB}

var errMind = errors.New("changed my mind")

// fn ends the transaction by text. What it wrote before may be there, and nobody says that it is not.
func TestSQL_EndedByText(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, server(t), fence.SQLConfig{})
			b.exec(t, "CREATE TABLE IF NOT EXISTS {fence}_text (id INTEGER)")
			t.Cleanup(func() { _, _ = b.db.ExecContext(context.Background(), "DROP TABLE "+b.table+"_text") })
			ends := map[string]string{"COMMIT": "COMMIT", "ROLLBACK": "ROLLBACK"}
			if name == "mariadb" {
				ends["DDL"] = "CREATE TABLE IF NOT EXISTS {fence}_text (id INTEGER)"
			}
			want := int64(0)
			for _, zombie := range []bool{false, true} {
				if zombie {
					b.seal(t, 2)
				}
				for end, text := range ends {
					for _, fnErr := range []error{nil, errMind, context.Canceled} {
						for _, cancels := range []bool{false, true} {
							ctx, cancel := context.WithCancel(t.Context())
							err := b.Tx(ctx, token(1), func(tx *sql.Tx) error {
								if err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1"); err != nil {
									return err
								}
								if err := b.execIn(t, tx, text); err != nil {
									t.Fatal(err)
								}
								if cancels {
									cancel()
								}
								return fnErr
							})
							cancel()
							if end != "ROLLBACK" {
								want++
							}
							// An interrupted write, which takes SQLite's transaction along, looks the same.
							if name == "sqlite" && fnErr == context.Canceled {
								continue
							}
							if got := cas.OutcomeOf(err); err == nil || got != cas.Uncertain {
								t.Errorf("zombie: %t, %s, fn returned %v, context ended: %t: got %v (%s), want an error that is uncertain",
									zombie, end, fnErr, cancels, err, got)
							}
						}
					}
				}
			}
			b.wantBalance(t, 1, want)
		})
	}
}

// What has failed with its transaction open is known not to be applied, whatever the failure.
func TestSQL_NotEndedByFunction(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, server(t), fence.SQLConfig{})
			var nothing *pgconn.PgError
			for what, fn := range map[string]func(*sql.Tx) error{
				"an error of its own":       func(*sql.Tx) error { return errMind },
				"a nil pointer":             func(*sql.Tx) error { return nothing },
				"a statement's error":       func(tx *sql.Tx) error { return b.execIn(t, tx, "UPDATE nowhere SET x = 1") },
				"a statement's, kept quiet": func(tx *sql.Tx) error { _ = b.execIn(t, tx, "UPDATE nowhere SET x = 1"); return errMind },
				"a refused guard":           func(tx *sql.Tx) error { return b.Guard(t.Context(), tx, token(2)) },
				"an ended context": func(tx *sql.Tx) error {
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					_, err := tx.ExecContext(ctx, "SELECT 1")
					return err
				},
			} {
				err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
					if err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1"); err != nil {
						return err
					}
					return fn(tx)
				})
				if got := cas.OutcomeOf(err); err == nil || got != cas.NotApplied {
					t.Errorf("%s: got %T (%s), want an error that is not applied", what, err, got)
				}
			}
			b.wantBalance(t, 1, 0)
		})
	}
}

// A deadlock rolls MySQL's transaction back, and the function that returns it has not ended anything.
func TestMariaDB_DeadlockIsNotApplied(t *testing.T) {
	b := newBank(t, MariaDB(t), fence.SQLConfig{})
	other := b.begin(t, sql.LevelDefault)
	if err := b.execIn(t, other, "UPDATE {account} SET balance = balance + 1 WHERE id IN (1, 2)"); err != nil { // the heavier one
		t.Fatal(err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	other = b.begin(t, sql.LevelDefault)
	if err := b.execIn(t, other, "INSERT INTO {account} SELECT seq + 10, 0 FROM seq_1_to_100"); err != nil {
		t.Fatal(err)
	}
	if err := b.execIn(t, other, "UPDATE {account} SET balance = balance + 1 WHERE id = 2"); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
		if err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1"); err != nil {
			return err
		}
		go func() { waits <- b.execIn(t, other, "UPDATE {account} SET balance = balance + 1 WHERE id = 1") }()
		if err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 2"); err != nil {
			return fmt.Errorf("deposit: %w", err)
		}
		return errMind
	})
	if other := <-waits; other != nil {
		t.Fatalf("the other was the deadlock's victim: %v", other)
	}
	if got := cas.OutcomeOf(err); err == nil || errors.Is(err, errMind) || got != cas.NotApplied {
		t.Errorf("got %v (%s), want a deadlock that is not applied", err, got)
	}
}

// A Guard in a transaction that has ended vouches for nothing.
func TestSQL_GuardAfterTheEnd(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, server(t), fence.SQLConfig{})
			for end, fn := range map[string]func(*sql.Tx) error{
				"Commit": (*sql.Tx).Commit,
				"COMMIT": func(tx *sql.Tx) error { return b.execIn(t, tx, "COMMIT") },
			} {
				if name == "mariadb" && end == "COMMIT" {
					continue // in a transaction that Tx or package sqlcas has begun it is seen there
				}
				tx := b.begin(t, sql.LevelDefault)
				if err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1"); err != nil {
					t.Fatal(err)
				}
				if err := fn(tx); err != nil {
					t.Fatal(err)
				}
				if err := b.Guard(t.Context(), tx, token(2)); err == nil || cas.OutcomeOf(err) != cas.Uncertain {
					t.Errorf("%s: got %v (%s), want an error that is uncertain", end, err, cas.OutcomeOf(err))
				}
			}
			b.wantBalance(t, 1, map[string]int64{"mariadb": 1}[name]+map[bool]int64{true: 2}[name != "mariadb"])
		})
	}
}
