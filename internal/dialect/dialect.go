// Package dialect says in what SQL databases differ, for the packages that write SQL for all of
// them. Statements are written once, with ? for parameters and quoted names; Bind turns them into
// what a database reads.
package dialect

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect names a family of databases. The zero value is invalid.
type Dialect uint8

const (
	Postgres Dialect = iota + 1 // PostgreSQL 12 and later
	MySQL                       // MySQL 8.0, MariaDB 10.6 and later, with InnoDB
	SQLite                      // SQLite 3.24 and later
)

func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

// Check returns an error unless d is one of the constants.
func (d Dialect) Check() error {
	if d < Postgres || d > SQLite {
		return fmt.Errorf("%s: want Postgres, MySQL or SQLite", d)
	}
	return nil
}

// Bind turns each ? into the database's parameter: $1, $2, … on Postgres. Statements given to it
// hold no literal question mark.
func (d Dialect) Bind(stmt string) string {
	if d != Postgres {
		return stmt
	}
	var b strings.Builder
	n := 0
	for {
		before, after, found := strings.Cut(stmt, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		stmt = after
	}
}

// maxName keeps a name with the longest suffix that a package appends ("_position") below the
// shortest limit of all databases: Postgres cuts names off, silently, at 63 bytes.
const maxName = 48

// CheckName returns an error unless name is safe as a table's name: lower-case letters, digits
// and underscores, not beginning with a digit, at most 48; or two such, schema.table. Names become
// part of statements, so nothing else may pass. Upper case is refused because databases do not
// agree on whether "Fence" and "fence" are one table.
func CheckName(name string) error {
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		return fmt.Errorf("table %q: want name or schema.name", name)
	}
	for _, p := range parts {
		if !isName(p) {
			return fmt.Errorf("table %q: want [a-z_][a-z0-9_]*, at most %d characters, with or without a schema before it",
				name, maxName)
		}
	}
	return nil
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// Quote quotes a name that CheckName has passed, so that a reserved word will do as well.
func (d Dialect) Quote(name string) string {
	q := `"`
	if d == MySQL {
		q = "`"
	}
	return q + strings.ReplaceAll(name, ".", q+"."+q) + q
}
