package attempt

import (
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/dialect"
)

// The ids that cas.Dated makes are read as it writes them.
func TestDatedIDs(t *testing.T) {
	receipts, err := NewReceipts(dialect.SQLite, "receipt")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, name := range []string{"a", "a-b", "", "@x"} {
		r, err := receipts.Receipt("p", cas.Dated(began, name))
		if err != nil || !r.dated || r.began != began.Unix() {
			t.Errorf("%q: got %+v, %v", name, r, err)
		}
	}
	for _, id := range []string{"a", "a@20310203T040506Z-b"} {
		if r, err := receipts.Receipt("p", id); err != nil || r.dated {
			t.Errorf("%q: got %+v, %v, want it undated", id, r, err)
		}
	}
	for _, id := range []string{"@20310203T040506Z", "@19990203T040506Z-a", "@2031-a", horizonID, "@"} {
		if r, err := receipts.Receipt("p", id); err == nil {
			t.Errorf("%q: got %+v, want an error", id, r)
		}
	}
}

// The table is a format: programs of several versions meet in it.
func TestSchema(t *testing.T) {
	for d, want := range map[dialect.Dialect]string{
		dialect.Postgres: `CREATE TABLE IF NOT EXISTS "app"."receipt" (id VARCHAR(256) COLLATE "C" NOT NULL PRIMARY KEY, state VARCHAR(16) NOT NULL, began BIGINT, written BIGINT NOT NULL);
CREATE INDEX IF NOT EXISTS "receipt_began" ON "app"."receipt" (began);
INSERT INTO "app"."receipt" (id, state, began, written) VALUES ('@horizon', 'horizon', 0, 0) ON CONFLICT DO NOTHING;
`,
		dialect.SQLite: `CREATE TABLE IF NOT EXISTS "app"."receipt" (id TEXT NOT NULL PRIMARY KEY, state VARCHAR(16) NOT NULL, began BIGINT, written BIGINT NOT NULL);
CREATE INDEX IF NOT EXISTS "app"."receipt_began" ON "receipt" (began);
INSERT INTO "app"."receipt" (id, state, began, written) VALUES ('@horizon', 'horizon', 0, 0) ON CONFLICT DO NOTHING;
`,
		dialect.MySQL: "CREATE TABLE IF NOT EXISTS `app`.`receipt` (id VARBINARY(256) NOT NULL PRIMARY KEY, state VARCHAR(16) NOT NULL, began BIGINT, written BIGINT NOT NULL, INDEX `receipt_began` (began)) ENGINE=InnoDB;\n" +
			"INSERT IGNORE INTO `app`.`receipt` (id, state, began, written) VALUES ('@horizon', 'horizon', 0, 0);\n",
	} {
		receipts, err := NewReceipts(d, "app.receipt")
		if err != nil {
			t.Fatal(err)
		}
		if got := receipts.Schema(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", d, got, want)
		}
		for _, stmt := range []string{receipts.stmt.add, receipts.stmt.read, receipts.stmt.horizonNow, receipts.stmt.remove} {
			if strings.ContainsAny(stmt, "{}") {
				t.Errorf("%s: %s: a name is missing", d, stmt)
			}
		}
	}
	for _, table := range []string{"", "A", "a;b", "a.b.c"} {
		if _, err := NewReceipts(dialect.SQLite, table); err == nil {
			t.Errorf("%q: got nil, want an error", table)
		}
	}
}
