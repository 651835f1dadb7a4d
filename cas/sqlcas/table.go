package sqlcas

import (
	"context"
	"database/sql"
	"errors"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas/internal/attempt"
	"github.com/tenure-go/tenure/cas/sqlcas/internal/row"
	"github.com/tenure-go/tenure/internal/dialect"
)

// Dialect is a kind of database.
type Dialect = dialect.Dialect

const (
	Postgres = dialect.Postgres
	MySQL    = dialect.MySQL // and MariaDB
	SQLite   = dialect.SQLite
)

// Querier is a *sql.DB, *sql.Conn or *sql.Tx.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Key holds the values of a row's key columns, in the order in which NewTable was given their names.
type Key []any

// Set holds values by the name of their column. Names are quoted, so that whatever is in them is no more
// than a name; but a name that comes from a client can be that of any column. On Postgres a quoted name is
// case-sensitive: write a column that was made without quotes in lower case.
type Set map[string]any

// Table changes rows that have a version: an integer column, NOT NULL, which each change raises by one.
// Other writers of the table must do so too: SET version = version + 1. Safe for concurrent use.
//
// A change of one row is one statement, with a second one only to say why it was refused. On Postgres and SQLite it
// returns the new version (RETURNING, SQLite 3.35), also where a trigger sets it. MySQL counts the rows that
// are other than before, unless the DSN says clientFoundRows; as the version changes, they are the
// rows found.
//
// A row that is deleted and inserted again begins at version 1 again, and somebody who saw version 1 of the first
// will pass with the second. Where that can be, mark rows as deleted instead, or let no key come back.
type Table struct {
	d    Dialect
	name string
	row  *row.Table
}

// NewTable checks and quotes the names: of the table, with or without a schema before it, of the column
// that holds the version, and of those that make up the key, which must be unique (on Postgres and SQLite
// Insert needs a primary key or unique index of just these). No I/O. The Outcome of its error is
// NotApplied.
func NewTable(d Dialect, table, version string, key ...string) (*Table, error) {
	r, err := row.New(d, table, version, key)
	if err != nil {
		return nil, &attempt.Error{Package: "sqlcas", Op: "NewTable", Err: err, Out: cas.NotApplied}
	}
	return &Table{d: d, name: table, row: r}, nil
}

// Update sets columns of the row with that key, if its version is seen, and returns its new version. An
// empty set changes the version alone.
//
// Otherwise *ConflictError, with the version that is there, or ErrMissing, and nothing has changed. seen is
// compared as it is, 0 too: no value stands for "any version". An error of the database is as it came,
// wrapped; its Outcome is Uncertain unless the database has said that it refused, if q is no transaction. In
// a transaction the outcome is the transaction's: roll it back, or return the error from DB.Retry's function.
func (t *Table) Update(ctx context.Context, q Querier, key Key, seen int64, set Set) (int64, error) {
	r, err := t.row.Update(ctx, querier{q}, key, seen, set)
	return t.result("update", r, key, seen, err)
}

// Insert inserts a row with that key and set, at version 1, and returns that. ErrExists if the key is there,
// and nothing has changed; a transaction can go on. Other errors are as those of Update.
func (t *Table) Insert(ctx context.Context, q Querier, key Key, set Set) (int64, error) {
	r, err := t.row.Insert(ctx, querier{q}, key, set)
	return t.result("insert", r, key, 0, err)
}

// Delete deletes the row with that key, if its version is seen. Errors are those of Update.
func (t *Table) Delete(ctx context.Context, q Querier, key Key, seen int64) error {
	r, err := t.row.Delete(ctx, querier{q}, key, seen)
	_, err = t.result("delete", r, key, seen, err)
	return err
}

func (t *Table) result(op string, r row.Result, key Key, seen int64, err error) (int64, error) {
	if err != nil {
		return 0, failed(t.d, op, t.name, key, err)
	}
	if err := refused(r, t.name, key, seen); err != nil {
		return 0, err
	}
	return r.Version, nil
}

// querier adapts database/sql.
type querier struct{ q Querier }

func (a querier) Exec(ctx context.Context, stmt string, args ...any) (int64, error) {
	res, err := a.q.ExecContext(ctx, stmt, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (a querier) Query(ctx context.Context, stmt string, args []any, each func(func(...any) error) error) error {
	rows, err := a.q.QueryContext(ctx, stmt, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	// To the end: on a connection in autocommit the commit may fail after the row.
	if err := rows.Err(); err != nil {
		_ = rows.Close() // it has ended
		return err
	}
	return rows.Close()
}
