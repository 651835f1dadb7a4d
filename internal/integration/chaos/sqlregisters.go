package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
)

// tables are what the registers in Postgres need, next to the fence's own. tail.n is raised by each write of a shard and
// stays locked until its commit, so accepted.n is the order of commits. Nothing keeps accepted.id unique: that is
// for the audit to find.
var tables = []string{
	`CREATE TABLE register (key text PRIMARY KEY, shard int NOT NULL, value bigint NOT NULL)`,
	`CREATE INDEX ON register (shard)`,
	`CREATE TABLE tail (shard int PRIMARY KEY, n bigint NOT NULL)`,
	`INSERT INTO tail SELECT s, 0 FROM generate_series(0, 1023) AS s`,
	`CREATE TABLE accepted (shard int, n bigint, id text NOT NULL, key text NOT NULL, kind text NOT NULL,
		value bigint NOT NULL, epoch bigint NOT NULL, node text NOT NULL, PRIMARY KEY (shard, n))`,
}

const (
	setRegister = `INSERT INTO register (key, shard, value) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET value = excluded.value`
	accept      = `WITH t AS (UPDATE tail SET n = n + 1 WHERE shard = $1 RETURNING n)
		INSERT INTO accepted (shard, n, id, key, kind, value, epoch, node) SELECT $1, n, $2, $3, $4, $5, $6, $7 FROM t`
)

// sqlRegisters are registers in Postgres, under a fence.
type sqlRegisters struct {
	db     *sql.DB
	fences *fence.SQL
	fenced bool
}

func (s *sqlRegisters) load(ctx context.Context, t *owner.Tenure) (map[string]int64, error) {
	if s.fenced {
		if err := s.fences.Seal(ctx, t.Token()); err != nil {
			return nil, err
		}
	}
	rows, err := s.db.QueryContext(ctx, "SELECT key, value FROM register WHERE shard = $1", t.Token().Shard)
	if err != nil {
		return nil, fmt.Errorf("load shard %d: %w", t.Token().Shard, err)
	}
	defer rows.Close()
	values := make(map[string]int64)
	for rows.Next() {
		var key string
		var value int64
		if err := rows.Scan(&key, &value); err != nil {
			return nil, fmt.Errorf("load shard %d: %w", t.Token().Shard, err)
		}
		values[key] = value
	}
	return values, rows.Err()
}

func (s *sqlRegisters) write(ctx context.Context, t *owner.Tenure, r row) error {
	return s.tx(ctx, t, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, setRegister, r.Key, r.Shard, r.Value); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, accept, r.Shard, r.ID, r.Key, r.Kind, r.Value, int64(r.Epoch), r.Node)
		return err
	})
}

func (s *sqlRegisters) confirm(ctx context.Context, t *owner.Tenure) error {
	if !s.fenced {
		return nil
	}
	return s.tx(ctx, t, func(*sql.Tx) error { return nil })
}

// tx is fence.SQL.Tx, or what people write who have none.
func (s *sqlRegisters) tx(ctx context.Context, t *owner.Tenure, fn func(*sql.Tx) error) error {
	if s.fenced {
		return s.fences.Tx(ctx, t.Token(), fn)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (s *sqlRegisters) stale(err error) bool {
	_, fenced := errors.AsType[*fence.FencedError](err)
	return fenced
}

// acceptedAfter is what Postgres accepted in a shard since row n, in the order of commits.
func acceptedAfter(ctx context.Context, db *sql.DB, shard int, n int64) ([]row, error) {
	rows, err := db.QueryContext(ctx,
		"SELECT n, id, key, kind, value, epoch, node FROM accepted WHERE shard = $1 AND n > $2 ORDER BY n", shard, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []row
	for rows.Next() {
		r := row{Shard: shard}
		if err := rows.Scan(&r.N, &r.ID, &r.Key, &r.Kind, &r.Value, (*int64)(&r.Epoch), &r.Node); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// finalsIn are all registers in Postgres.
func finalsIn(ctx context.Context, db *sql.DB) ([]final, error) {
	rows, err := db.QueryContext(ctx, "SELECT key, value FROM register ORDER BY key")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []final
	for rows.Next() {
		var f final
		if err := rows.Scan(&f.Key, &f.Value); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, rows.Err()
}
