package idem

import (
	"context"
	"database/sql"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

// rows are what is measured of one store: a function for each, which gets a key that is new.
type benchRow struct {
	name string
	run  func(ctx context.Context, key string) error
}

var keys atomic.Int64

func measure(b *testing.B, rows ...benchRow) {
	for _, row := range rows {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				if err := row.run(b.Context(), strconv.FormatInt(keys.Add(1), 10)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func one(context.Context, *idem.Op) (int, error) { return 1, nil }

// common are the rows of every store.
func common(b *testing.B, s idem.Store) (*idem.Engine, []benchRow) {
	b.Helper()
	e, err := idem.New(s, idem.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return e, []benchRow{
		{"Do", func(ctx context.Context, key string) error {
			_, err := idem.Do(ctx, e, idem.Request{Scope: "a", Key: key}, one)
			return err
		}},
		{"Do, one step", func(ctx context.Context, key string) error {
			_, err := idem.Do(ctx, e, idem.Request{Scope: "a", Key: key}, func(ctx context.Context, op *idem.Op) (int, error) {
				return idem.Step(ctx, op, "s", func(context.Context, string) (int, error) { return 1, nil })
			})
			return err
		}},
		{"replay", func(ctx context.Context, _ string) error {
			_, err := idem.Do(ctx, e, idem.Request{Scope: "a", Key: "the same"}, one)
			return err
		}},
	}
}

func benchmarkCAS(b *testing.B, s cas.Store) {
	_, rows := common(b, idem.OnCAS(s, ""))
	bare := benchRow{"bare commit", func(ctx context.Context, key string) error {
		_, err := s.Commit(ctx, cas.Txn{If: []cas.Cond{cas.Absent(key)}, Then: []cas.Op{cas.Put(key, make([]byte, 200))}})
		return err
	}}
	measure(b, append([]benchRow{bare}, rows...)...)
}

func BenchmarkMemory(b *testing.B) {
	s := memkv.New()
	defer s.Close()
	benchmarkCAS(b, s)
}

func BenchmarkEtcd(b *testing.B) {
	server := etcdtest.Start(b, etcdtest.Config{Fsync: true})
	s := etcdkv.New(server.Client(b))
	defer s.Close()
	benchmarkCAS(b, s)
}

func BenchmarkSQLite(b *testing.B)   { benchmarkSQL(b, sqlite(b)) }
func BenchmarkPostgres(b *testing.B) { benchmarkSQL(b, postgres(b)) }
func BenchmarkMariaDB(b *testing.B)  { benchmarkSQL(b, mariadb(b)) }

func benchmarkSQL(b *testing.B, d database) {
	k := newBank(b, d)
	e, rows := common(b, k.store(b, k.db, sqlidem.Config{}))
	deposit := func(ctx context.Context) func(*sql.Tx) (int, error) {
		return func(tx *sql.Tx) (int, error) { return k.deposit(ctx, tx, "a") }
	}
	measure(b, append([]benchRow{
		{"bare transaction", func(ctx context.Context, _ string) error {
			tx, err := k.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := k.deposit(ctx, tx, "a"); err != nil {
				return err
			}
			return tx.Commit()
		}},
		{"DoTx", func(ctx context.Context, key string) error {
			_, err := sqlidem.DoTx(ctx, e, idem.Request{Scope: "a", Key: key}, deposit(ctx))
			return err
		}},
		{"Do with StepTx, Last", func(ctx context.Context, key string) error {
			_, err := idem.Do(ctx, e, idem.Request{Scope: "a", Key: key}, func(ctx context.Context, op *idem.Op) (int, error) {
				return sqlidem.StepTx(ctx, op, "book", deposit(ctx), sqlidem.Last)
			})
			return err
		}},
	}, rows...)...)
}

func BenchmarkPgx(b *testing.B) {
	k, pool := newBank(b, postgres(b)), pgxPool(b, "")
	e, rows := common(b, pgxStore(b, pool, pgxidem.Config{}, k.table))
	deposit := func(ctx context.Context) func(pgx.Tx) (int, error) {
		return func(tx pgx.Tx) (int, error) { return k.pgxDeposit(ctx, tx, "a") }
	}
	measure(b, append([]benchRow{
		{"bare transaction", func(ctx context.Context, _ string) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := deposit(ctx)(tx)
				return err
			})
		}},
		{"DoTx", func(ctx context.Context, key string) error {
			_, err := pgxidem.DoTx(ctx, e, idem.Request{Scope: "a", Key: key}, deposit(ctx))
			return err
		}},
		{"Do with StepTx, Last", func(ctx context.Context, key string) error {
			_, err := idem.Do(ctx, e, idem.Request{Scope: "a", Key: key}, func(ctx context.Context, op *idem.Op) (int, error) {
				return pgxidem.StepTx(ctx, op, "book", deposit(ctx), pgxidem.Last)
			})
			return err
		}},
	}, rows...)...)
}
