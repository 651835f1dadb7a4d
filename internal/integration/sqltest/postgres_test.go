package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

// The weaker guards that one might write, each shown to let a stale write in. They are why the
// guard is what it is.
func TestPostgres_NaiveGuardsAdmitStaleWrites(t *testing.T) {
	for name, guard := range map[string]string{
		"EXISTS":        "SELECT count(*) FROM (SELECT 1 FROM {fence} WHERE epoch = $1) AS held",
		"FOR KEY SHARE": "SELECT count(*) FROM (SELECT 1 FROM {fence} WHERE epoch = $1 FOR KEY SHARE) AS held",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, Postgres(t), fence.SQLConfig{})
			zombie := b.begin(t, sql.LevelReadCommitted)
			if err := b.execIn(t, zombie, "UPDATE {account} SET balance = 17 WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
			var held int
			if err := zombie.QueryRowContext(t.Context(), b.query(guard), int64(token(1).Epoch)).Scan(&held); err != nil || held != 1 {
				t.Fatalf("guard: got %d, %v, want 1", held, err)
			}
			b.seal(t, 2)           // does not wait
			b.wantBalance(t, 1, 0) // what the successor loads
			if err := zombie.Commit(); err != nil {
				t.Fatal(err)
			}
			b.wantBalance(t, 1, 17) // behind its back
		})
	}
}

// A client that counts rows learns of the refusal when its COMMIT has been sent.
func TestPostgres_CountingRowsIsTooLateInAPipeline(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	b.seal(t, 2)
	epoch := int64(token(1).Epoch)
	locked := "SELECT 1 FROM {fence} WHERE epoch = $1 FOR SHARE"
	for _, test := range []struct {
		name, guard string
		want        int64
	}{
		{"error in the server", "SELECT 1 / count(*) FROM (" + locked + ") AS held", 0},
		{"row count", locked, 17},
	} {
		conn, err := b.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = conn.Raw(func(c any) error {
			p := c.(*stdlib.Conn).Conn().PgConn().StartPipeline(t.Context())
			for _, s := range []string{"BEGIN", "UPDATE {account} SET balance = 17 WHERE id = 1"} {
				p.SendQueryParams(b.query(s), nil, nil, nil, nil)
			}
			p.SendQueryParams(b.query(test.guard), [][]byte{fmt.Append(nil, epoch)}, nil, nil, nil)
			p.SendQueryParams("COMMIT", nil, nil, nil, nil)
			if err := p.Sync(); err != nil {
				return err
			}
			return p.Close()
		})
		t.Logf("%s: %v", test.name, err)
		_ = conn.Raw(func(any) error { return errors.New("discard") })
		_ = conn.Close()
		b.wantBalance(t, 1, test.want)
	}
}

// eventually asks until the answer is want.
func (b *bank) eventually(t *testing.T, stmt string, want int64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if b.number(t, stmt) == want {
			return
		}
	}
	t.Fatalf("%s never was %d", stmt, want)
}

func TestPostgres_CommitRefusedByAConstraintIsNotApplied(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	b.exec(t, "ALTER TABLE {account} ADD COLUMN owner INTEGER REFERENCES {account}(id) DEFERRABLE INITIALLY DEFERRED")
	err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
		return b.execIn(t, tx, "UPDATE {account} SET balance = 17, owner = 99 WHERE id = 1")
	})
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "23503" {
		t.Errorf("got %v, want the constraint's violation", err)
	}
	if got := cas.OutcomeOf(err); got != cas.NotApplied {
		t.Errorf("outcome: got %s, want not applied", got)
	}
	b.wantBalance(t, 1, 0)
}

// fn may swallow an error, but not the transaction's failure.
func TestPostgres_SwallowedErrorIsNotApplied(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{})
	err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
		if err := b.execIn(t, tx, "UPDATE {account} SET balance = 17 WHERE id = 1"); err != nil {
			return err
		}
		_ = b.execIn(t, tx, "SELECT 1 / 0")
		return nil
	})
	if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s), want an error that is not applied", err, cas.OutcomeOf(err))
	}
	b.wantBalance(t, 1, 0)
}

func TestPostgres_SettingsStayInTheTransaction(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{Idle: 1500 * time.Millisecond})
	b.db.SetMaxOpenConns(1)
	show := "SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
	before := b.number(t, show)
	err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
		var inside int64
		err := tx.QueryRowContext(t.Context(), show).Scan(&inside)
		if inside != 1500 {
			t.Errorf("inside: got %d ms, want 1500", inside)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := b.number(t, show); after != before {
		t.Errorf("after: got %d, want %d as before", after, before)
	}
}

// A session of the pool may be held to a stricter limit than SQLConfig.Idle, which must not loosen it.
func TestPostgres_IdleOnlyShortens(t *testing.T) {
	s := Postgres(t)
	b := newBank(t, s, fence.SQLConfig{})
	const show = "SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
	for _, test := range []struct {
		session string // what the DSN asks for
		idle    time.Duration
		want    int64 // ms
	}{
		{"700ms", 1500 * time.Millisecond, 700},
		{"1min", 1500 * time.Millisecond, 1500},
		{"0", 1500 * time.Millisecond, 1500},
		{"0", 0, 10_000},
		{"700ms", -1, 700},
	} {
		c, err := pgx.ParseConfig(require(t, "TENURE_TEST_POSTGRES"))
		if err != nil {
			t.Fatal(err)
		}
		c.RuntimeParams["idle_in_transaction_session_timeout"] = test.session
		db := stdlib.OpenDB(*c)
		f, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{Table: b.table, Idle: test.idle})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var got int64
			if err := f.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
				return tx.QueryRowContext(t.Context(), show).Scan(&got)
			}); err != nil {
				t.Error(err)
			}
			if got != test.want {
				t.Errorf("session %s, Idle %s: got %d ms, want %d", test.session, test.idle, got, test.want)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What Tx sends first is no query, so fn may still lock before it has a snapshot.
func TestPostgres_SnapshotIsOfTheFunctionsFirstQuery(t *testing.T) {
	b := newBank(t, Postgres(t), fence.SQLConfig{Tx: sql.TxOptions{Isolation: sql.LevelRepeatableRead}})
	err := b.Tx(t.Context(), token(1), func(tx *sql.Tx) error {
		b.exec(t, "UPDATE {account} SET balance = 17 WHERE id = 1")
		var got int
		err := tx.QueryRowContext(t.Context(), b.query("SELECT balance FROM {account} WHERE id = 1")).Scan(&got)
		if got != 17 {
			t.Errorf("balance: got %d, want the 17 from before the first query", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A service's role often may not make tables; its migrations do.
func TestPostgres_InstallNeedsNoRightsOnceInstalled(t *testing.T) {
	s := Postgres(t)
	b := newBank(t, s, fence.SQLConfig{})
	role := b.table + "_role"
	b.exec(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		for _, stmt := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := b.db.ExecContext(context.Background(), stmt); err != nil {
				t.Error(err)
			}
		}
	})
	b.exec(t, "GRANT SELECT, INSERT, UPDATE ON "+strings.Join([]string{
		b.table, b.table + "_wanted", b.table + "_position", b.table + "_account",
	}, ", ")+" TO "+role)
	b.exec(t, "GRANT SELECT, UPDATE ON SEQUENCE "+b.table+"_generation TO "+role)
	u, err := url.Parse(require(t, "TENURE_TEST_POSTGRES"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	c, err := pgx.ParseConfig(u.String())
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*c)
	t.Cleanup(func() { _ = db.Close() })
	f, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{Table: b.table})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Install(t.Context()); err != nil {
		t.Errorf("Install: %v", err)
	}
	if err := f.Seal(t.Context(), token(2)); err != nil {
		t.Errorf("Seal: %v", err)
	}
	if err := f.Tx(t.Context(), token(2), func(tx *sql.Tx) error {
		return b.execIn(t, tx, "UPDATE {account} SET balance = 17 WHERE id = 1")
	}); err != nil {
		t.Errorf("Tx: %v", err)
	}
	b.wantBalance(t, 1, 17)
}
