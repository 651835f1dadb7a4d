package dialect_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/internal/dialect"
)

var numbered = regexp.MustCompile(`\$(\d+)`)

// params is how many parameters a statement takes.
func params(t *testing.T, d dialect.Dialect, stmt string) int {
	t.Helper()
	if d != dialect.Postgres {
		return strings.Count(stmt, "?")
	}
	var seen []int
	for _, m := range numbered.FindAllStringSubmatch(stmt, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, n)
	}
	slices.Sort(seen)
	seen = slices.Compact(seen)
	for i, n := range seen {
		if n != i+1 {
			t.Errorf("%s: parameters %v: want them without gaps", stmt, seen)
		}
	}
	return len(seen)
}

func TestIdemParameters(t *testing.T) {
	args := len(dialect.IdemArgs(1, "", nil, 0, 0, 1, "id"))
	for _, d := range []dialect.Dialect{dialect.Postgres, dialect.MySQL, dialect.SQLite} {
		i := dialect.NewIdem(d, "app.operations")
		for what, s := range map[string]struct {
			stmt string
			want int
		}{
			"Get": {i.Get, 1}, "Heal": {i.Heal, 2}, "Extend": {i.Extend, 4}, "Hold": {i.Hold, 2},
			"Insert": {i.Insert, args}, "Revive": {i.Revive, args + 1}, "Update": {i.Update, args + 1},
			"Drop": {i.Drop, 1}, "Delete": {i.Delete, 1}, "Probe": {i.Probe, 0}, "Begin": {i.Begin, 0},
		} {
			if got := params(t, d, s.stmt); got != s.want {
				t.Errorf("%s: %s takes %d parameters, want %d: %s", d, what, got, s.want, s.stmt)
			}
			if strings.ContainsAny(s.stmt, "{}") {
				t.Errorf("%s: %s has a place that was not filled: %s", d, what, s.stmt)
			}
		}
		for _, stmt := range i.Create {
			if strings.ContainsAny(stmt, "{}") || !strings.Contains(stmt, "IF NOT EXISTS") || strings.Contains(stmt, ".operations_") {
				t.Errorf("%s: schema: %s", d, stmt)
			}
		}
	}
	i := dialect.NewIdem(dialect.Postgres, "operations")
	if a, b := params(t, dialect.Postgres, i.Claim), params(t, dialect.Postgres, i.Must); a != args || b != args+1 {
		t.Errorf("Claim and Must take %d and %d parameters, want %d and %d", a, b, args, args+1)
	}
}

// An attempt or a replay of nothing is none, and not one that ends now.
func TestIdemArgs(t *testing.T) {
	got := dialect.IdemArgs(7, "head", nil, 0, 5000, 9000, "id")
	want := []any{int64(7), "head", nil, int64(0), int64(0), int64(0), int64(1), int64(5000), int64(9000), "id"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
