package pgxcas

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas"
	"github.com/tenure-go/tenure/cas/sqlcas/internal/attempt"
	"github.com/tenure-go/tenure/cas/sqlcas/internal/row"
	"github.com/tenure-go/tenure/internal/dialect"
)

// Querier is a *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn or pgx.Tx.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Key and Set are those of sqlcas.
type (
	Key = sqlcas.Key
	Set = sqlcas.Set
)

// Table is sqlcas.Table for pgx: see there. Safe for concurrent use.
type Table struct {
	name string
	row  *row.Table
}

// NewTable is sqlcas.NewTable.
func NewTable(table, version string, key ...string) (*Table, error) {
	r, err := row.New(dialect.Postgres, table, version, key)
	if err != nil {
		return nil, notApplied("NewTable", err)
	}
	return &Table{name: table, row: r}, nil
}

// Update is sqlcas.Table.Update.
func (t *Table) Update(ctx context.Context, q Querier, key Key, seen int64, set Set) (int64, error) {
	r, err := t.row.Update(ctx, querier{q}, key, seen, set)
	return t.result("update", r, key, seen, err)
}

// Insert is sqlcas.Table.Insert.
func (t *Table) Insert(ctx context.Context, q Querier, key Key, set Set) (int64, error) {
	r, err := t.row.Insert(ctx, querier{q}, key, set)
	return t.result("insert", r, key, 0, err)
}

// Delete is sqlcas.Table.Delete.
func (t *Table) Delete(ctx context.Context, q Querier, key Key, seen int64) error {
	r, err := t.row.Delete(ctx, querier{q}, key, seen)
	_, err = t.result("delete", r, key, seen, err)
	return err
}

func (t *Table) result(op string, r row.Result, key Key, seen int64, err error) (int64, error) {
	switch {
	case err != nil:
		outcome := cas.Uncertain
		if errors.Is(err, row.ErrInput) || pgconn.SafeToRetry(err) || dialect.Postgres.FaultOf(err) != dialect.NoWord {
			outcome = cas.NotApplied
		}
		return 0, &attempt.Error{Package: "pgxcas", Op: fmt.Sprintf("%s %s %v", op, t.name, key), Err: err, Out: outcome}
	case r.Fate == row.Missing:
		return 0, fmt.Errorf("%w: %s %v", sqlcas.ErrMissing, t.name, key)
	case r.Fate == row.Exists:
		return 0, fmt.Errorf("%w: %s %v, at version %d", sqlcas.ErrExists, t.name, key, r.Version)
	case r.Fate == row.Conflict:
		return 0, &sqlcas.ConflictError{Table: t.name, Key: key, Seen: seen, Current: r.Version}
	}
	return r.Version, nil
}

// querier adapts pgx.
type querier struct{ q Querier }

func (a querier) Exec(ctx context.Context, stmt string, args ...any) (int64, error) {
	tag, err := a.q.Exec(ctx, stmt, args...)
	return tag.RowsAffected(), err
}

func (a querier) Query(ctx context.Context, stmt string, args []any, each func(func(...any) error) error) error {
	rows, err := a.q.Query(ctx, stmt, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
