package sqlcas

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tenure-go/tenure/cas/sqlcas"
	"github.com/tenure-go/tenure/internal/integration/sqltest"
)

// BenchmarkIncrement has 16 clients add to one row, or each to one of 64, in the ways that there are. "versioned" and
// "retry" read, compute and write; "plain" lets the database compute. ns/op is for one that was applied, all
// clients together; tries/op is how many it took.
func BenchmarkIncrement(b *testing.B) {
	for name, server := range map[string]func(testing.TB) sqltest.Server{"postgres": sqltest.Postgres, "mariadb": sqltest.MariaDB} {
		for what, rows := range map[string]int64{"hot": 1, "spread": 64} {
			b.Run(name+"/"+what, func(b *testing.B) {
				for _, way := range ways {
					b.Run(way.name, func(b *testing.B) {
						r := newRig(b, server(b), false)
						for id := int64(4); id <= 64; id++ {
							r.exec(b, "INSERT INTO {account} VALUES (?, 100, 1)", id)
						}
						c := r.client(b, options{level: way.level, tries: 10000}).install(b)
						var left, tries atomic.Int64
						left.Store(int64(b.N))
						run := way.make(b, c, &tries)
						b.ResetTimer()
						var wg sync.WaitGroup
						for range 16 {
							wg.Go(func() {
								for left.Add(-1) >= 0 {
									if err := run(b.Context(), 1+rand.Int64N(rows)); err != nil {
										b.Error(err)
										return
									}
								}
							})
						}
						wg.Wait()
						b.StopTimer()
						b.ReportMetric(float64(tries.Load())/float64(b.N), "tries/op")
						if got := r.number(b, "SELECT SUM(balance) FROM {account}"); got != 6400+int64(b.N) {
							b.Errorf("sum: got %d, want %d: an update was lost", got, 6400+b.N)
						}
					})
				}
			})
		}
	}
}

type increment func(ctx context.Context, id int64) error

var errAgain = errors.New("again")

var ways = []struct {
	name  string
	level sql.IsolationLevel
	make  func(b *testing.B, c *client, tries *atomic.Int64) increment
}{
	{"plain", sql.LevelDefault, func(_ *testing.B, c *client, tries *atomic.Int64) increment {
		return func(ctx context.Context, id int64) error {
			tries.Add(1)
			return c.direct().add(ctx, id, 1)
		}
	}},
	{"versioned", sql.LevelDefault, func(b *testing.B, c *client, tries *atomic.Int64) increment {
		accounts := c.accounts(b)
		return func(ctx context.Context, id int64) error {
			for {
				tries.Add(1)
				err := c.tryVersioned(ctx, accounts, c.direct(), id)
				if !errors.Is(err, errAgain) {
					return err
				}
			}
		}
	}},
	{"for-update", sql.LevelDefault, func(_ *testing.B, c *client, tries *atomic.Int64) increment {
		return func(ctx context.Context, id int64) error {
			tries.Add(1)
			t, err := c.pool.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = t.Rollback() }()
			x := tx{c.rig, t, nil}
			n, err := x.number(ctx, "SELECT balance FROM {account} WHERE id = ? FOR UPDATE", id)
			if err != nil {
				return err
			}
			if err := x.exec(ctx, "UPDATE {account} SET balance = ? WHERE id = ?", n+1, id); err != nil {
				return err
			}
			return t.Commit()
		}
	}},
	{"retry-serializable", sql.LevelSerializable, func(_ *testing.B, c *client, tries *atomic.Int64) increment {
		return func(ctx context.Context, id int64) error {
			return c.retry(ctx, func(x tx) error {
				tries.Add(1)
				n, err := x.number(ctx, "SELECT balance FROM {account} WHERE id = ?", id)
				if err != nil {
					return err
				}
				return x.exec(ctx, "UPDATE {account} SET balance = ? WHERE id = ?", n+1, id)
			})
		}
	}},
	{"retry-plain", sql.LevelDefault, func(_ *testing.B, c *client, tries *atomic.Int64) increment {
		return func(ctx context.Context, id int64) error {
			return c.retry(ctx, func(x tx) error { tries.Add(1); return x.add(ctx, id, 1) })
		}
	}},
	{"once-plain", sql.LevelDefault, func(_ *testing.B, c *client, tries *atomic.Int64) increment {
		var ops atomic.Int64
		return func(ctx context.Context, id int64) error {
			return c.once(ctx, fmt.Sprint("op-", ops.Add(1)), func(x tx) error { tries.Add(1); return x.add(ctx, id, 1) })
		}
	}},
}

// tryVersioned is one try; errAgain if somebody was faster.
func (r *rig) tryVersioned(ctx context.Context, accounts table, x tx, id int64) error {
	n, err := x.number(ctx, "SELECT balance * 100000000 + version FROM {account} WHERE id = ?", id)
	if err != nil {
		return err
	}
	_, err = accounts.update(ctx, x, sqlcas.Key{id}, n%100000000, sqlcas.Set{"balance": n/100000000 + 1})
	if _, conflict := errors.AsType[*sqlcas.ConflictError](err); conflict {
		return errAgain
	}
	return err
}
