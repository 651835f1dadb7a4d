package attempt

import (
	"context"
	"fmt"
	"strings"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/dialect"
)

// Receipts is a database's table of receipts. Immutable once made.
type Receipts struct {
	d     dialect.Dialect
	table string
	stmt  statements
}

type statements struct {
	create []string
	probe  string

	add        string // nothing if the id is there; waits while somebody else holds it
	read       string // and hold
	set        string
	horizon    string
	horizonNow string // of a snapshot that may be old: fails, or is current

	raise   string
	expired string
	remove  string // without its list
}

// NewReceipts checks the table's name.
func NewReceipts(d dialect.Dialect, table string) (Receipts, error) {
	if err := d.Check(); err != nil {
		return Receipts{}, fmt.Errorf("dialect: %w", err)
	}
	if err := dialect.CheckName(table); err != nil {
		return Receipts{}, err
	}
	return Receipts{d: d, table: table, stmt: newStatements(d, table)}, nil
}

func newStatements(d dialect.Dialect, table string) statements {
	// Ids are compared byte for byte. A text column of MySQL would ignore case, or spaces at the end.
	idType, ignore, into, engine := `VARCHAR(256) COLLATE "C"`, " ON CONFLICT DO NOTHING", "INSERT INTO ", ""
	hold, share := " FOR UPDATE", " FOR SHARE"
	switch d {
	case dialect.MySQL:
		// With IGNORE the number of rows says whether it was there, whatever the client asks to have
		// counted. What else it would let pass, an id too long, has been checked.
		idType, ignore, into = "VARBINARY(256)", "", "INSERT IGNORE INTO "
		engine = ", INDEX {index} (began)) ENGINE=InnoDB"
		// A duplicate has left a lock in share mode: two that wanted more would wait for each other.
		hold, share = " LOCK IN SHARE MODE", " LOCK IN SHARE MODE"
	case dialect.SQLite:
		idType, hold, share = "TEXT", "", "" // the insert has taken the one write lock
	}
	if engine == "" {
		engine = ")"
	}
	schema, bare, found := strings.Cut(table, ".")
	if !found {
		schema, bare = "", table
	}
	index, on := d.Quote(bare+"_began"), d.Quote(table)
	if schema != "" && d == dialect.SQLite {
		index, on = d.Quote(table+"_began"), d.Quote(bare) // there the index names the schema
	}
	r := strings.NewReplacer("{receipt}", d.Quote(table), "{index}", index, "{on}", on,
		"{id}", idType, "{into}", into, "{ignore}", ignore, "{end}", engine)
	// The second pass is for names within the first's.
	q := func(s string) string { return d.Bind(r.Replace(r.Replace(s))) }
	s := statements{
		create: []string{
			q(`CREATE TABLE IF NOT EXISTS {receipt} (id {id} NOT NULL PRIMARY KEY, state VARCHAR(16) NOT NULL, ` +
				`began BIGINT, written BIGINT NOT NULL{end}`),
		},
		probe: q(`SELECT id, state, began, written FROM {receipt} WHERE id = '` + horizonID + `'`),

		add:  q(`{into}{receipt} (id, state, began, written) VALUES (?, ?, ?, ?){ignore}`),
		read: q(`SELECT state FROM {receipt} WHERE id = ?` + hold),
		set:  q(`UPDATE {receipt} SET state = ?, written = ? WHERE id = ?`),

		horizon:    q(`SELECT began, '' FROM {receipt} WHERE id = '` + horizonID + `'`),
		horizonNow: q(`SELECT began, '' FROM {receipt} WHERE id = '` + horizonID + `'` + share),

		raise:   q(`UPDATE {receipt} SET began = ? WHERE id = '` + horizonID + `' AND began < ?`),
		expired: q(`SELECT id FROM {receipt} WHERE began < ? AND id <> '` + horizonID + `' ORDER BY began LIMIT ?`),
		remove:  q(`DELETE FROM {receipt} WHERE id IN `),
	}
	if d == dialect.Postgres {
		s.horizon = q(`SELECT began, current_setting('transaction_isolation') FROM {receipt} WHERE id = '` + horizonID + `'`)
	}
	if d != dialect.MySQL {
		index := q(`CREATE INDEX IF NOT EXISTS {index} ON {on} (began)`)
		s.create = append(s.create, index)
	}
	s.create = append(s.create, q(`{into}{receipt} (id, state, began, written) VALUES ('`+horizonID+`', '`+stateHorizon+`', 0, 0){ignore}`))
	return s
}

// read returns the state of a receipt that is there, and holds it.
func (t Receipts) read(ctx context.Context, q Querier, id string) (state string, err error) {
	found := false
	err = q.Query(ctx, t.stmt.read, []any{id}, func(scan func(...any) error) error {
		found = true
		return scan(&state)
	})
	if err == nil && !found {
		err = errVanished
	}
	return state, err
}

// horizon returns the time before which receipts may be gone, as it is now.
//
// A statement of Postgres at READ COMMITTED sees what was committed before it, and so does the first
// query of a transaction of MySQL's, whose snapshot is taken by it, and any of SQLite's one writer. On
// Postgres at a stricter level the snapshot is that of the insert, from which a sweep may have gone on;
// a lock in share mode fails then (40001). It is not taken where it needn't, for every operation locks
// this one row.
func (t Receipts) horizon(ctx context.Context, q Querier) (before int64, err error) {
	var level string
	look := func(stmt string) error {
		found := false
		err := q.Query(ctx, stmt, nil, func(scan func(...any) error) error {
			found = true
			return scan(&before, &level)
		})
		if err == nil && !found {
			err = fmt.Errorf("table %s has no row %q: run Schema in a migration, or call Install", t.table, horizonID)
		}
		return err
	}
	if err := look(t.stmt.horizon); err != nil {
		return 0, err
	}
	if t.d == dialect.Postgres && level != "read committed" {
		err = look(t.stmt.horizonNow)
	}
	return before, err
}

// Schema is the table as SQL. It changes no table that is there.
func (t Receipts) Schema() string { return strings.Join(t.stmt.create, ";\n") + ";\n" }

// Install runs Schema, unless the table is there: then the database user needs no right to make it.
func (t Receipts) Install(ctx context.Context, q Querier, pkg string) error {
	if t.probe(ctx, q) == nil {
		return nil
	}
	for _, stmt := range t.stmt.create {
		if _, err := q.Exec(ctx, stmt); err != nil {
			// On Postgres, IF NOT EXISTS fails in a race with another process that makes the table.
			if _, again := q.Exec(ctx, stmt); again != nil {
				return &Error{pkg, "install", err, cas.OutcomeOf(err)}
			}
		}
	}
	if err := t.probe(ctx, q); err != nil {
		return &Error{pkg, "install", fmt.Errorf("table %q is there, but has other columns: %w", t.table, err), cas.NotApplied}
	}
	return nil
}

func (t Receipts) probe(ctx context.Context, q Querier) error {
	found := false
	err := q.Query(ctx, t.stmt.probe, nil, func(func(...any) error) error { found = true; return nil })
	if err == nil && !found {
		err = fmt.Errorf("it has no row %q", horizonID)
	}
	return err
}
