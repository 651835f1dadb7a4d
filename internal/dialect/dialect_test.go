package dialect_test

import (
	"strings"
	"testing"

	"github.com/tenure-go/tenure/internal/dialect"
)

func TestBind(t *testing.T) {
	const stmt = "UPDATE t SET a = ? WHERE b = ? AND c = ?"
	for d, want := range map[dialect.Dialect]string{
		dialect.Postgres: "UPDATE t SET a = $1 WHERE b = $2 AND c = $3",
		dialect.MySQL:    stmt,
		dialect.SQLite:   stmt,
	} {
		if got := d.Bind(stmt); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "_a1", "tenure_fence", "app.tenure_fence", "order", strings.Repeat("a", 48)} {
		if err := dialect.CheckName(name); err != nil {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "a.", ".a", "a.b.c", "1a", "Fence", "a b", "a-b", `a"b`, "a`b", "a;drop table x", "a'", "é", "a\x00",
		strings.Repeat("a", 49),
	} {
		if err := dialect.CheckName(name); err == nil {
			t.Errorf("CheckName(%q): got nil, want an error", name)
		}
	}
}

func TestQuote(t *testing.T) {
	for d, want := range map[dialect.Dialect]string{
		dialect.Postgres: `"app"."order"`, dialect.MySQL: "`app`.`order`", dialect.SQLite: `"app"."order"`,
	} {
		if got := d.Quote("app.order"); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Postgres, dialect.MySQL, dialect.SQLite} {
		if err := d.Check(); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
	for _, d := range []dialect.Dialect{0, 4} {
		if err := d.Check(); err == nil {
			t.Errorf("%s: got nil, want an error", d)
		}
	}
}
