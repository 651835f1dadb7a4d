package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver pgx
	_ "modernc.org/sqlite"             // registers the driver sqlite

	"github.com/tenure-go/tenure/idem/sqlidem"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// books is the database: the queue, the entries, the fence, and the records of package idem.
type books struct {
	db     *sql.DB
	fences *fence.SQL
	store  *sqlidem.Store
}

// openBooks opens the Postgres that a URL names, or the SQLite in a file.
func openBooks(source string) (*books, error) {
	driver, dialect := "sqlite", fence.SQLite
	if isPostgres(source) {
		driver, dialect = "pgx", fence.Postgres
	} else {
		u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(source)}
		// Not synchronous: a process that is killed loses nothing that the operating system has, and this program pulls
		// no plugs.
		u.RawQuery = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
		source = u.String()
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if dialect == fence.SQLite {
		db.SetMaxOpenConns(1) // there is one writer at a time, and for a connection they queue
	}
	fences, err := fence.NewSQL(db, dialect, fence.SQLConfig{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	store, err := sqlidem.New(db, dialect, sqlidem.Config{Fence: fences})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &books{db, fences, store}, nil
}

func isPostgres(source string) bool {
	return strings.HasPrefix(source, "postgres://") || strings.HasPrefix(source, "postgresql://")
}

func (b *books) close() error { return b.db.Close() }

// install makes the tables. A real service would have that in its migrations: see the Schema methods. entry has no
// unique index on purpose: it would be a second safeguard, and hide what happens without the first.
func (b *books) install(ctx context.Context) error {
	if err := errors.Join(b.fences.Install(ctx), b.store.Install(ctx)); err != nil {
		return err
	}
	for _, table := range []string{
		"CREATE TABLE job (id TEXT PRIMARY KEY, shard INTEGER NOT NULL, account TEXT NOT NULL, amount BIGINT NOT NULL)",
		"CREATE INDEX job_shard ON job (shard)",
		"CREATE TABLE entry (payment TEXT NOT NULL, charge TEXT NOT NULL, account TEXT NOT NULL, amount BIGINT NOT NULL)",
	} {
		if _, err := b.db.ExecContext(ctx, table); err != nil {
			return fmt.Errorf("create tables: %w", err)
		}
	}
	return nil
}

// submit puts jobs into the queue.
func (b *books) submit(ctx context.Context, g shard.Group, payments []Payment) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	defer tx.Rollback() // after Commit it does nothing
	for _, p := range payments {
		_, err := tx.ExecContext(ctx, "INSERT INTO job (id, shard, account, amount) VALUES ($1, $2, $3, $4)", p.ID, g.Of(p.Account), p.Account, p.Amount)
		if err != nil {
			return fmt.Errorf("submit: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	return nil
}

// due are the first jobs of a shard, at most n.
func (b *books) due(ctx context.Context, shard, n int) ([]Payment, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT id, account, amount FROM job WHERE shard = $1 ORDER BY id LIMIT $2", shard, n)
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	defer rows.Close()
	var due []Payment
	for rows.Next() {
		var p Payment
		if err := rows.Scan(&p.ID, &p.Account, &p.Amount); err != nil {
			return nil, fmt.Errorf("read the queue: %w", err)
		}
		due = append(due, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	return due, nil
}

// remove takes a job from the queue. It needs no fence: a job that is finished stays finished, whoever says so.
func (b *books) remove(ctx context.Context, p Payment) error {
	if _, err := b.db.ExecContext(ctx, "DELETE FROM job WHERE id = $1", p.ID); err != nil {
		return fmt.Errorf("take %s from the queue: %w", p.ID, err)
	}
	return nil
}

// left is how many jobs there are.
func (b *books) left(ctx context.Context) (n int, err error) {
	err = b.db.QueryRowContext(ctx, "SELECT count(*) FROM job").Scan(&n)
	return n, err
}

// book writes an entry.
func (b *books) book(ctx context.Context, tx *sql.Tx, p Payment, charge string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO entry (payment, charge, account, amount) VALUES ($1, $2, $3, $4)", p.ID, charge, p.Account, p.Amount)
	return err
}

// look says whether a payment is still in the queue, and whether it is booked.
func (b *books) look(ctx context.Context, id string) (queued, booked bool, err error) {
	const counts = "SELECT (SELECT count(*) FROM job WHERE id = $1), (SELECT count(*) FROM entry WHERE payment = $1)"
	var jobs, entries int
	if err := b.db.QueryRowContext(ctx, counts, id).Scan(&jobs, &entries); err != nil {
		return false, false, fmt.Errorf("look for %s: %w", id, err)
	}
	return jobs > 0, entries > 0, nil
}

// entry is a charge that is booked.
type entry struct {
	Payment
	charge string
}

// entries are all that are booked, by payment.
func (b *books) entries(ctx context.Context) (map[string][]entry, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT payment, charge, account, amount FROM entry")
	if err != nil {
		return nil, fmt.Errorf("read the entries: %w", err)
	}
	defer rows.Close()
	all := make(map[string][]entry)
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.ID, &e.charge, &e.Account, &e.Amount); err != nil {
			return nil, fmt.Errorf("read the entries: %w", err)
		}
		all[e.ID] = append(all[e.ID], e)
	}
	return all, rows.Err()
}
