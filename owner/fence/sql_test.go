package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

// nowhere is a database that cannot be reached.
type nowhere struct{}

var errNowhere = errors.New("no route to host")

func (nowhere) Connect(context.Context) (driver.Conn, error) { return nil, errNowhere }
func (nowhere) Driver() driver.Driver                        { return nil }

func TestNewSQL(t *testing.T) {
	db := sql.OpenDB(nowhere{})
	defer db.Close()
	for name, test := range map[string]struct {
		db   *sql.DB
		d    fence.Dialect
		c    fence.SQLConfig
		want []string // in the error; none: there is no error
	}{
		"defaults":   {db: db, d: fence.Postgres},
		"everything": {db: db, d: fence.MySQL, c: fence.SQLConfig{Table: "app.fence", Tx: sql.TxOptions{Isolation: sql.LevelSerializable}, Idle: -1}},
		"no db":      {d: fence.SQLite, want: []string{"db is nil"}},
		"dialect":    {db: db, want: []string{"Dialect(0)", "want Postgres, MySQL or SQLite"}},
		"read only":  {db: db, d: fence.Postgres, c: fence.SQLConfig{Tx: sql.TxOptions{ReadOnly: true}}, want: []string{"SQLConfig.Tx.ReadOnly"}},
		"isolation":  {db: db, d: fence.Postgres, c: fence.SQLConfig{Tx: sql.TxOptions{Isolation: 99}}, want: []string{"SQLConfig.Tx.Isolation"}},
		"idle":       {db: db, d: fence.Postgres, c: fence.SQLConfig{Idle: 1 << 62}, want: []string{"SQLConfig.Idle"}},
		"injection":  {db: db, d: fence.SQLite, c: fence.SQLConfig{Table: `x"; DROP TABLE account; --`}, want: []string{"SQLConfig.Table"}},
		"long table": {db: db, d: fence.MySQL, c: fence.SQLConfig{Table: strings.Repeat("x", 49)}, want: []string{"at most 48"}},
		"all joined": {c: fence.SQLConfig{Table: "X", Tx: sql.TxOptions{ReadOnly: true}}, want: []string{"db is nil", "Dialect(0)", "SQLConfig.Table", "ReadOnly"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := fence.NewSQL(test.db, test.d, test.c)
			if (err == nil) != (len(test.want) == 0) || (f == nil) == (err == nil) {
				t.Fatalf("got %v, %v", f, err)
			}
			if err != nil && cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("outcome of %v: got %s, want not applied", err, cas.OutcomeOf(err))
			}
			for _, w := range test.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q, want %q in it", err, w)
				}
			}
		})
	}
}

func TestSchema(t *testing.T) {
	db := sql.OpenDB(nowhere{})
	defer db.Close()
	for _, d := range []fence.Dialect{fence.Postgres, fence.MySQL, fence.SQLite} {
		f, err := fence.NewSQL(db, d, fence.SQLConfig{Table: "app.fence"})
		if err != nil {
			t.Fatal(err)
		}
		got := f.Schema()
		if n := strings.Count(got, "CREATE TABLE IF NOT EXISTS "); n != 3 {
			t.Errorf("%s: got %d tables, want 3:\n%s", d, n, got)
		}
		if strings.ContainsAny(got, "{}?$") {
			t.Errorf("%s: a placeholder is left:\n%s", d, got)
		}
		for _, made := range []string{"CREATE SEQUENCE ", "FUNCTION "} {
			if strings.Contains(got, made) != (d == fence.Postgres) {
				t.Errorf("%s: %q should be there on Postgres, and only there:\n%s", d, made, got)
			}
		}
		for _, table := range []string{"fence", "fence_wanted", "fence_position"} {
			if !strings.Contains(got, d.Quote("app."+table)+" ") {
				t.Errorf("%s: no table %s:\n%s", d, table, got)
			}
		}
	}
}

func TestUnreachableDatabase(t *testing.T) {
	db := sql.OpenDB(nowhere{})
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, d := range []fence.Dialect{fence.Postgres, fence.MySQL, fence.SQLite} {
		f, err := fence.NewSQL(db, d, fence.SQLConfig{})
		if err != nil {
			t.Fatal(err)
		}
		wantIs(t, f.Tx(ctx, token(1), func(*sql.Tx) error { t.Error("fn ran"); return nil }), errNowhere)
		_, err = f.Position(ctx, token(1), "orders")
		wantIs(t, err, errNowhere)
		for what, err := range map[string]error{
			"Install": f.Install(ctx),
			"Seal":    f.Seal(ctx, token(1)),
			"SealAll": f.SealAll(ctx, "accounts", 1),
		} {
			if !errors.Is(err, errNowhere) {
				t.Errorf("%s: %s: got %v, want %v", d, what, err, errNowhere)
			}
		}
	}
}
