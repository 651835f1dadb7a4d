package zombie

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/bench/internal/servers"
)

// database is where the balance lies that most contenders write: Postgres, or SQLite without one.
type database struct {
	pool *pgxpool.Pool
	lite *sql.DB
}

const table = "bench_zombie"

func openDatabase(ctx context.Context, s spec) (*database, error) {
	if s.Addresses.Postgres != "" {
		pool, err := servers.OpenPostgres(ctx, s.Addresses.Postgres, 4)
		return &database{pool: pool}, err
	}
	db, err := servers.OpenSQLite(s.SQLite)
	return &database{lite: db}, err
}

func (d *database) close() {
	if d.pool != nil {
		d.pool.Close()
	} else {
		_ = d.lite.Close()
	}
}

func (d *database) exec(ctx context.Context, query string, args ...any) (changed int64, err error) {
	if d.pool != nil {
		tag, err := d.pool.Exec(ctx, query, args...)
		return tag.RowsAffected(), err
	}
	r, err := d.lite.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (d *database) create(ctx context.Context) error {
	_, err := d.exec(ctx, "CREATE TABLE IF NOT EXISTS "+table+" (id text PRIMARY KEY, balance bigint NOT NULL, version bigint NOT NULL)")
	return err
}

func (d *database) start(ctx context.Context, id string) error {
	_, err := d.exec(ctx, "INSERT INTO "+table+" VALUES ($1, 0, 0) ON CONFLICT (id) DO UPDATE SET balance = 0, version = 0", id)
	return err
}

func (d *database) read(ctx context.Context, id string) (balance, version int64, err error) {
	const query = "SELECT balance, version FROM " + table + " WHERE id = $1"
	if d.pool != nil {
		err = d.pool.QueryRow(ctx, query, id).Scan(&balance, &version)
	} else {
		err = d.lite.QueryRowContext(ctx, query, id).Scan(&balance, &version)
	}
	if err != nil {
		err = fmt.Errorf("zombie: read: %w", err)
	}
	return balance, version, err
}

const set = "UPDATE " + table + " SET balance = $2 WHERE id = $1"

func (d *database) set(ctx context.Context, id string, balance int64) error {
	_, err := d.exec(ctx, set, id, balance)
	return err
}

var errConflict = errors.New("zombie: somebody else has changed the version")

// byVersion is a holder that holds nothing: its write says which version it is based on.
type byVersion struct {
	*database
	id      string
	version int64
}

func (b *byVersion) acquire(ctx context.Context) (balance int64, err error) {
	balance, b.version, err = b.read(ctx, b.id)
	return balance, err
}

func (b *byVersion) write(ctx context.Context, balance int64) error {
	n, err := b.exec(ctx, "UPDATE "+table+" SET balance = $2, version = version + 1 WHERE id = $1 AND version = $3", b.id, balance, b.version)
	if err == nil && n == 0 {
		return errConflict
	}
	return err
}

func (*byVersion) release(context.Context) error { return nil }

// rowLock holds the row itself, in a transaction. The server ends it when its client has been silent for a TTL.
type rowLock struct {
	*database
	id string
	tx pgx.Tx
}

func (r *rowLock) acquire(ctx context.Context) (balance int64, err error) {
	if r.tx, err = r.pool.Begin(ctx); err != nil {
		return 0, err
	}
	if _, err := r.tx.Exec(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", TTL.Milliseconds())); err != nil {
		return 0, err
	}
	err = r.tx.QueryRow(ctx, "SELECT balance FROM "+table+" WHERE id = $1 FOR UPDATE", r.id).Scan(&balance)
	return balance, err
}

func (r *rowLock) write(ctx context.Context, balance int64) error {
	if _, err := r.tx.Exec(ctx, set, r.id, balance); err != nil {
		return err
	}
	return r.tx.Commit(ctx)
}

func (r *rowLock) release(ctx context.Context) error { return r.tx.Rollback(ctx) }
