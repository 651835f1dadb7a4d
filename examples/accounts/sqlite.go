package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // registers the driver

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// sqlite is a vault in one file, for the processes of one machine.
type sqlite struct {
	db     *sql.DB
	fences *fence.SQL
}

// openSQLite opens file, or a database in memory if that is "".
func openSQLite(file string) (*sqlite, error) {
	source := ":memory:"
	if file != "" {
		u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(file)}
		// FULL: what was acknowledged survives a power failure.
		u.RawQuery = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
		source = u.String()
	}
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", source, err)
	}
	// SQLite has one writer at a time, and those who wait for it are not queued but try again. For a connection of
	// the pool they are queued, so that within a process none is overtaken for long.
	db.SetMaxOpenConns(1)
	fences, err := fence.NewSQL(db, fence.SQLite, fence.SQLConfig{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &sqlite{db, fences}, nil
}

func (s *sqlite) install(ctx context.Context) error {
	if err := s.fences.Install(ctx); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0)) WITHOUT ROWID;
		CREATE TABLE IF NOT EXISTS operation (account TEXT NOT NULL, id TEXT NOT NULL, amount INTEGER NOT NULL, balance INTEGER NOT NULL,
			at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (account, id)) WITHOUT ROWID`)
	if err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

func (s *sqlite) seal(ctx context.Context, tok shard.Token) error { return s.fences.Seal(ctx, tok) }

func (s *sqlite) close() error { return s.db.Close() }

// read asks for one row after another: there is no network between.
func (s *sqlite) read(ctx context.Context, accounts []string, ops []operation) (map[string]int64, map[operation]entry, error) {
	balances := make(map[string]int64, len(accounts))
	applied := make(map[operation]entry)
	conn, err := s.db.Conn(ctx) // waited for once
	if err != nil {
		return nil, nil, fmt.Errorf("read: %w", err)
	}
	defer conn.Close()
	for _, id := range accounts {
		var balance int64
		err := conn.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = ?", id).Scan(&balance)
		if err == nil {
			balances[id] = balance
		} else if !errors.Is(err, sql.ErrNoRows) {
			return nil, nil, fmt.Errorf("read account: %w", err)
		}
	}
	for _, op := range ops {
		e := entry{operation: op}
		err := conn.QueryRowContext(ctx, "SELECT amount, balance FROM operation WHERE account = ? AND id = ?", op.account, op.id).
			Scan(&e.amount, &e.balance)
		if err == nil {
			applied[op] = e
		} else if !errors.Is(err, sql.ErrNoRows) {
			return nil, nil, fmt.Errorf("read operation: %w", err)
		}
	}
	return balances, applied, nil
}

func (s *sqlite) write(ctx context.Context, tok shard.Token, balances map[string]int64, entries []entry) error {
	return s.fences.Tx(ctx, tok, func(tx *sql.Tx) error {
		for id, balance := range balances {
			_, err := tx.ExecContext(ctx, `INSERT INTO account (id, balance) VALUES (?, ?)
				ON CONFLICT (id) DO UPDATE SET balance = excluded.balance`, id, balance)
			if err != nil {
				return fmt.Errorf("write account: %w", err)
			}
		}
		for _, e := range entries {
			_, err := tx.ExecContext(ctx, "INSERT INTO operation (account, id, amount, balance) VALUES (?, ?, ?, ?)",
				e.account, e.id, e.amount, e.balance)
			if err != nil {
				return fmt.Errorf("write operation: %w", err)
			}
		}
		return nil
	})
}
