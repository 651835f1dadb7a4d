package dialect

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxIdentifier is in bytes. Postgres cuts longer names off without a word, so that two could
// become one.
const maxIdentifier = 63

// Identifier quotes the name of a column, whatever is in it, so that it is read as just that name:
// also if it comes from a client, is a reserved word, or has a quote inside. Quoted names are
// case-sensitive on Postgres, where an unquoted one in CREATE TABLE is taken as lower case.
func (d Dialect) Identifier(name string) (string, error) {
	if name == "" || len(name) > maxIdentifier || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("name %.80q: want 1 to %d bytes of UTF-8 without NUL", name, maxIdentifier)
	}
	q := `"`
	if d == MySQL {
		q = "`"
	}
	return q + strings.ReplaceAll(name, q, q+q) + q, nil
}

// TableIdentifier is Identifier for a table's name, with or without a schema before it: its dot is the
// one between the two.
func (d Dialect) TableIdentifier(name string) (string, error) {
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		return "", fmt.Errorf("table %.140q: want name or schema.name", name)
	}
	for i, p := range parts {
		quoted, err := d.Identifier(p)
		if err != nil {
			return "", fmt.Errorf("table %.140q: %w", name, err)
		}
		parts[i] = quoted
	}
	return strings.Join(parts, "."), nil
}

// Param is a statement's n-th parameter, counted from 1. Unlike Bind it needs no statement without
// literal question marks, so a quoted name may hold one.
func (d Dialect) Param(n int) string {
	if d == Postgres {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}
