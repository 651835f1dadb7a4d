// Package row writes the statements that change one row on condition of its version, and reads from
// their results what became of it. It knows no driver: sqlcas and pgxcas bring theirs.
package row

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tenure-go/tenure/internal/dialect"
)

// Querier runs statements: a pool, a connection or a transaction.
type Querier interface {
	// Exec returns the number of rows that were changed.
	Exec(ctx context.Context, stmt string, args ...any) (int64, error)
	// Query calls each for every row, and reads to the end.
	Query(ctx context.Context, stmt string, args []any, each func(scan func(...any) error) error) error
}

// Fate is what became of a change.
type Fate uint8

const (
	Changed  Fate = iota // Result.Version is the new one
	Missing              // no such row
	Conflict             // Result.Version is the one that is there
	Exists               // of an insert: so is this
)

// Result is a Fate with the version that belongs to it.
type Result struct {
	Fate    Fate
	Version int64
}

// Table knows the names. Its zero value is of no use; immutable once made.
type Table struct {
	d         dialect.Dialect
	name      string // these three are quoted
	version   string
	key       []string
	versionAs string // as it was given
	keyAs     []string
}

// New checks and quotes the names.
func New(d dialect.Dialect, name, version string, key []string) (*Table, error) {
	t := &Table{d: d, versionAs: version, keyAs: slices.Clone(key)}
	if err := d.Check(); err != nil {
		return nil, fmt.Errorf("dialect: %w", err)
	}
	var errs []error
	quote := func(name string, quoted func(string) (string, error)) string {
		s, err := quoted(name)
		if err != nil {
			errs = append(errs, err)
		}
		return s
	}
	t.name = quote(name, d.TableIdentifier)
	t.version = quote(version, d.Identifier)
	seen := map[string]bool{version: true}
	for _, k := range key {
		if seen[k] {
			errs = append(errs, fmt.Errorf("column %q is named twice", k))
		}
		seen[k] = true
		t.key = append(t.key, quote(k, d.Identifier))
	}
	if len(key) == 0 {
		errs = append(errs, errors.New("no key column: name those that tell a row from all others"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t, nil
}

// returning: one statement says what the row's version is now, whatever a trigger made of it.
func (t *Table) returning() bool { return t.d != dialect.MySQL }

// Update sets columns and the next version, if seen is the row's.
func (t *Table) Update(ctx context.Context, q Querier, key []any, seen int64, set map[string]any) (Result, error) {
	if err := errors.Join(t.checkKey(key), t.checkSet(set), checkSeen(seen)); err != nil {
		return Result{}, err
	}
	var b strings.Builder
	args := make([]any, 0, len(set)+len(key)+1)
	b.WriteString("UPDATE " + t.name + " SET ")
	for _, name := range slices.Sorted(maps.Keys(set)) { // one order, one prepared statement
		quoted, err := t.d.Identifier(name)
		if err != nil {
			return Result{}, err
		}
		b.WriteString(quoted + " = " + t.param(&args, set[name]) + ", ")
	}
	// The version changes, so a server that counts changed rows, as MySQL does unless the client asks
	// otherwise, counts this one although all else may be as it was.
	b.WriteString(t.version + " = " + t.version + " + 1 WHERE ")
	b.WriteString(t.where(&args, key) + " AND " + t.version + " = " + t.param(&args, seen))
	n, version, err := t.run(ctx, q, b.String(), args)
	switch {
	case err != nil:
		return Result{}, err
	case n == 0:
		return t.explain(ctx, q, key)
	case !t.returning():
		version = seen + 1
	}
	return Result{Changed, version}, nil
}

// Delete deletes the row, if seen is its version.
func (t *Table) Delete(ctx context.Context, q Querier, key []any, seen int64) (Result, error) {
	if err := errors.Join(t.checkKey(key), checkSeen(seen)); err != nil {
		return Result{}, err
	}
	var args []any
	stmt := "DELETE FROM " + t.name + " WHERE " + t.where(&args, key) + " AND " + t.version + " = " + t.param(&args, seen)
	n, err := q.Exec(ctx, stmt, args...)
	switch {
	case err != nil:
		return Result{}, err
	case n == 0:
		return t.explain(ctx, q, key)
	case n > 1:
		return Result{}, t.several(n)
	}
	return Result{Changed, seen}, nil
}

// Insert inserts the row at version 1, if its key is not there.
func (t *Table) Insert(ctx context.Context, q Querier, key []any, set map[string]any) (Result, error) {
	if err := errors.Join(t.checkKey(key), t.checkSet(set)); err != nil {
		return Result{}, err
	}
	var args []any
	columns, params := slices.Clone(t.key), make([]string, 0, len(t.key)+len(set)+1)
	for _, k := range key {
		params = append(params, t.param(&args, k))
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		quoted, err := t.d.Identifier(name)
		if err != nil {
			return Result{}, err
		}
		columns, params = append(columns, quoted), append(params, t.param(&args, set[name]))
	}
	stmt := "INSERT INTO " + t.name + " (" + strings.Join(append(columns, t.version), ", ") +
		") VALUES (" + strings.Join(append(params, "1"), ", ") + ")"
	if t.returning() {
		// Unlike a failed INSERT, this leaves a transaction of Postgres alive; and another unique
		// column's violation stays an error of its own.
		stmt += " ON CONFLICT (" + strings.Join(t.key, ", ") + ") DO NOTHING"
	}
	n, version, err := t.run(ctx, q, stmt, args)
	duplicate := err != nil && !t.returning() && t.d.FaultOf(err) == dialect.Duplicate
	switch {
	case err != nil && !duplicate:
		return Result{}, err
	case n == 1 && !t.returning():
		return Result{Changed, 1}, nil
	case n == 1:
		return Result{Changed, version}, nil
	}
	r, asked := t.explain(ctx, q, key)
	switch {
	case asked != nil:
		return Result{}, asked
	case r.Fate == Conflict:
		return Result{Exists, r.Version}, nil
	case duplicate:
		return Result{}, err // some other unique key's
	}
	return r, nil // deleted meanwhile
}

// run runs a statement that changes at most one row. version is what it returned, if it can.
func (t *Table) run(ctx context.Context, q Querier, stmt string, args []any) (n, version int64, err error) {
	if !t.returning() {
		n, err = q.Exec(ctx, stmt, args...)
	} else {
		err = q.Query(ctx, stmt+" RETURNING "+t.version, args, func(scan func(...any) error) error {
			n++
			return scan(&version)
		})
	}
	if err == nil && n > 1 {
		err = t.several(n)
	}
	return n, version, err
}

// explain says why a statement found no row at the version seen.
//
// MySQL looks at a row as it is when it changes it, and as it was in the transaction's snapshot when it
// reads it, unless it locks: without the lock the version seen would seem to be there.
func (t *Table) explain(ctx context.Context, q Querier, key []any) (Result, error) {
	var args []any
	stmt := "SELECT " + t.version + " FROM " + t.name + " WHERE " + t.where(&args, key)
	if t.d == dialect.MySQL {
		stmt += " LOCK IN SHARE MODE"
	}
	r := Result{Fate: Missing}
	err := q.Query(ctx, stmt, args, func(scan func(...any) error) error {
		var version *int64
		if err := scan(&version); err != nil {
			return err
		}
		if version == nil {
			return fmt.Errorf("the row's %s is NULL, which equals no version: declare it NOT NULL", t.versionAs)
		}
		r = Result{Conflict, *version}
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	return r, nil
}

// ErrSeveral: the key columns are no key.
var ErrSeveral = errors.New("the key columns do not tell one row from others: make them unique")

func (t *Table) several(n int64) error { return fmt.Errorf("%w: %d rows were changed", ErrSeveral, n) }

// param adds an argument, and returns what stands for it in the statement.
func (t *Table) param(args *[]any, v any) string {
	*args = append(*args, v)
	return t.d.Param(len(*args))
}

func (t *Table) where(args *[]any, key []any) string {
	var b strings.Builder
	for i, column := range t.key {
		if i > 0 {
			b.WriteString(" AND ")
		}
		b.WriteString(column + " = " + t.param(args, key[i]))
	}
	return b.String()
}

// ErrInput: an argument is at fault, and nothing was sent.
var ErrInput = errors.New("bad argument")

func (t *Table) checkKey(key []any) error {
	if len(key) != len(t.keyAs) {
		return fmt.Errorf("%w: %d key values: want %d, for %s", ErrInput, len(key), len(t.keyAs), strings.Join(t.keyAs, ", "))
	}
	return nil
}

func (t *Table) checkSet(set map[string]any) error {
	for name := range set {
		if strings.EqualFold(name, t.versionAs) {
			return fmt.Errorf("%w: column %q holds the version, which is set by itself", ErrInput, name)
		}
		if slices.ContainsFunc(t.keyAs, func(k string) bool { return strings.EqualFold(k, name) }) {
			return fmt.Errorf("%w: column %q is of the key: delete the row and insert another", ErrInput, name)
		}
		if _, err := dialect.Postgres.Identifier(name); err != nil {
			return fmt.Errorf("%w: column: %w", ErrInput, err)
		}
	}
	return nil
}

// checkSeen refuses what no row's version can be, or be followed by. 0 may be one, and is compared
// like any other.
func checkSeen(seen int64) error {
	if seen < 0 || seen == math.MaxInt64 {
		return fmt.Errorf("%w: version %d: want one that was read from the row, at least 0 and below %d", ErrInput, seen, int64(math.MaxInt64))
	}
	return nil
}
