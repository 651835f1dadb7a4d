package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// database has the accounts, an entry for each record, the fence and the positions.
type database struct {
	db     *sql.DB
	fences *fence.SQL
}

func openDatabase(file string) (*database, error) {
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(file)}
	// Not synchronous: a process that is killed loses nothing that the operating system has, and this program pulls no
	// plugs.
	u.RawQuery = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	db.SetMaxOpenConns(1) // there is one writer at a time, and for a connection they queue
	fences, err := fence.NewSQL(db, fence.SQLite, fence.SQLConfig{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &database{db, fences}, nil
}

func (d *database) close() error { return d.db.Close() }

// install makes the tables. A real service would have that in its migrations: see fence.SQL.Schema. entry has no unique index
// on purpose: it would be a second safeguard, and hide what happens without the first.
func (d *database) install(ctx context.Context) error {
	if err := d.fences.Install(ctx); err != nil {
		return err
	}
	_, err := d.db.ExecContext(ctx, fmt.Sprintf(`
		CREATE TABLE account (customer TEXT PRIMARY KEY, shard INTEGER NOT NULL, ordered INTEGER NOT NULL, paid INTEGER NOT NULL,
			orders INTEGER NOT NULL, payments INTEGER NOT NULL, last_order TEXT NOT NULL) WITHOUT ROWID;
		CREATE INDEX account_shard ON account (shard);
		CREATE TABLE entry (nr INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, partition INTEGER NOT NULL, position INTEGER NOT NULL,
			customer TEXT NOT NULL, event TEXT NOT NULL, number INTEGER NOT NULL, cents INTEGER NOT NULL CHECK (cents BETWEEN 1 AND %d))`, mostCents))
	if err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

// write is for a transaction under the fence.
func (d *database) write(ctx context.Context, tx *sql.Tx, tok shard.Token, k kind, recs []*kgo.Record, events []event) error {
	for i, r := range recs {
		e, change := events[i], account{}.with(k, events[i])
		_, err := tx.ExecContext(ctx, "INSERT INTO entry (kind, partition, position, customer, event, number, cents) VALUES (?, ?, ?, ?, ?, ?, ?)",
			k, r.Partition, r.Offset, string(r.Key), e.ID, e.Number, e.Cents)
		if err != nil {
			return fmt.Errorf("write an entry: %w", err)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO account VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (customer) DO UPDATE SET
				ordered = ordered + excluded.ordered, orders = orders + excluded.orders,
				paid = paid + excluded.paid, payments = payments + excluded.payments,
				last_order = CASE excluded.orders WHEN 0 THEN last_order ELSE excluded.last_order END`,
			string(r.Key), tok.Shard, change.Ordered, change.Paid, change.Orders, change.Payments, change.LastOrder)
		if err != nil {
			return fmt.Errorf("write an account: %w", err)
		}
	}
	return nil
}

// accounts are those of a shard, or of all shards if that is negative.
func (d *database) accounts(ctx context.Context, shard int) (map[string]account, error) {
	accounts := make(map[string]account)
	err := d.each(ctx, func(scan func(...any) error) error {
		var customer string
		var a account
		if err := scan(&customer, &a.Ordered, &a.Paid, &a.Orders, &a.Payments, &a.LastOrder); err != nil {
			return err
		}
		accounts[customer] = a
		return nil
	}, "SELECT customer, ordered, paid, orders, payments, last_order FROM account WHERE shard = ?1 OR ?1 < 0", shard)
	return accounts, err
}

// entry is one record as it was applied.
type entry struct {
	place
	customer string
	event
}

// entries are all, in the order in which they were written.
func (d *database) entries(ctx context.Context) (all []entry, err error) {
	err = d.each(ctx, func(scan func(...any) error) error {
		var e entry
		if err := scan(&e.kind, &e.partition, &e.offset, &e.customer, &e.ID, &e.Number, &e.Cents); err != nil {
			return err
		}
		all = append(all, e)
		return nil
	}, "SELECT kind, partition, position, customer, event, number, cents FROM entry ORDER BY nr")
	return all, err
}

// applied is how many entries there are.
func (d *database) applied(ctx context.Context) (n int, err error) {
	// They are numbered, and none is deleted.
	if err := d.db.QueryRowContext(ctx, "SELECT coalesce(max(nr), 0) FROM entry").Scan(&n); err != nil {
		return 0, fmt.Errorf("read the database: %w", err)
	}
	return n, nil
}

// each calls row for each row of a query.
func (d *database) each(ctx context.Context, row func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := d.db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return fmt.Errorf("read the database: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	return nil
}
