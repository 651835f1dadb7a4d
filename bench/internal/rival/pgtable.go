package rival

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// pgTable is a contender's own table of accounts in Postgres.
type pgTable struct {
	pool *pgxpool.Pool
	name string

	add, read, lock, set, cas, setMany string // statements
}

func newPgTable(ctx context.Context, p *Places, accounts int) (*pgTable, error) {
	t := &pgTable{pool: p.Postgres, name: p.name("account")}
	// Room in each page, so that a changed row finds a place beside its older self.
	_, err := t.pool.Exec(ctx, fmt.Sprintf(`DROP TABLE IF EXISTS %[1]s; CREATE TABLE %[1]s (id int PRIMARY KEY, balance bigint NOT NULL,
		version bigint NOT NULL) WITH (fillfactor = 50); INSERT INTO %[1]s SELECT n, 0, 0 FROM generate_series(0, %[2]d) AS n`, t.name, accounts-1))
	if err != nil {
		return nil, fmt.Errorf("rival: create table: %w", err)
	}
	if _, err = t.pool.Exec(ctx, "VACUUM ANALYZE "+t.name); err != nil {
		return nil, fmt.Errorf("rival: analyze: %w", err)
	}
	t.add = "UPDATE " + t.name + " SET balance = balance + $2 WHERE id = $1"
	t.read = "SELECT balance, version FROM " + t.name + " WHERE id = $1"
	t.lock = "SELECT balance FROM " + t.name + " WHERE id = $1 FOR UPDATE"
	t.set = "UPDATE " + t.name + " SET balance = $2 WHERE id = $1"
	t.cas = "UPDATE " + t.name + " SET balance = $2, version = version + 1 WHERE id = $1 AND version = $3"
	t.setMany = "UPDATE " + t.name + " AS t SET balance = v.balance FROM unnest($1::int[], $2::bigint[]) AS v (id, balance) WHERE t.id = v.id"
	return t, nil
}

func (t *pgTable) sum(ctx context.Context) (n int64, err error) {
	err = t.pool.QueryRow(ctx, "SELECT sum(balance)::bigint FROM "+t.name).Scan(&n)
	return n, err
}

func (t *pgTable) drop() {
	_, _ = t.pool.Exec(context.Background(), "DROP TABLE IF EXISTS "+t.name)
}

// addOne is the effect that locks outside of the database guard: one statement, one transaction.
func (t *pgTable) addOne(ctx context.Context, account int) error {
	_, err := t.pool.Exec(ctx, t.add, account, 1)
	return err
}

// readThenSet is the effect as a program has it that decides something on the balance it read. It loses
// increments unless something orders its calls.
func (t *pgTable) readThenSet(ctx context.Context, account int) error {
	var balance, version int64
	if err := t.pool.QueryRow(ctx, t.read, account).Scan(&balance, &version); err != nil {
		return err
	}
	_, err := t.pool.Exec(ctx, t.set, account, balance+1)
	return err
}
