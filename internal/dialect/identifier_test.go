package dialect_test

import (
	"strings"
	"testing"

	"github.com/tenure-go/tenure/internal/dialect"
)

func TestIdentifier(t *testing.T) {
	for _, test := range []struct{ name, double, back string }{
		{"balance", `"balance"`, "`balance`"},
		{"Order By", `"Order By"`, "`Order By`"},
		{`a"b`, `"a""b"`, "`a\"b`"},
		{"a`b", "\"a`b\"", "`a``b`"},
		{"ä.ö", `"ä.ö"`, "`ä.ö`"},
	} {
		for d, want := range map[dialect.Dialect]string{
			dialect.Postgres: test.double, dialect.SQLite: test.double, dialect.MySQL: test.back,
		} {
			if got, err := d.Identifier(test.name); got != want || err != nil {
				t.Errorf("%s: %q: got %s, %v, want %s", d, test.name, got, err, want)
			}
		}
	}
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("a", 64)} {
		if got, err := dialect.Postgres.Identifier(name); err == nil {
			t.Errorf("%q: got %s, want an error", name, got)
		}
	}
}

func TestTableIdentifier(t *testing.T) {
	for name, want := range map[string]string{"account": "`account`", "app.account": "`app`.`account`"} {
		if got, err := dialect.MySQL.TableIdentifier(name); got != want || err != nil {
			t.Errorf("%q: got %s, %v, want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"", ".", "a.", ".a", "a.b.c", "a.b\x00"} {
		if got, err := dialect.MySQL.TableIdentifier(name); err == nil {
			t.Errorf("%q: got %s, want an error", name, got)
		}
	}
}

func TestParam(t *testing.T) {
	for d, want := range map[dialect.Dialect]string{dialect.Postgres: "$12", dialect.MySQL: "?", dialect.SQLite: "?"} {
		if got := d.Param(12); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}
