package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/shard"
)

// accounts are the suite's, in a database.
type accounts struct {
	server Server
	db     *sql.DB
	table  string // the fence's; the accounts are in table_account
}

var tables atomic.Int64

func newAccounts(t testing.TB, s Server) *accounts {
	t.Helper()
	a := &accounts{server: s, db: s.Open(t), table: fmt.Sprintf("fence_%d_%d", os.Getpid(), tables.Add(1))}
	t.Cleanup(func() {
		for _, stmt := range append(dialect.NewFence(s.Dialect, a.table).Drop, "DROP TABLE IF EXISTS "+a.table+"_account") {
			if _, err := a.db.ExecContext(context.Background(), stmt); err != nil {
				t.Errorf("drop: %v", err)
			}
		}
		if err := a.db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	for _, stmt := range []string{
		"CREATE TABLE " + a.table + "_account (id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)",
		"INSERT INTO " + a.table + "_account VALUES (0,0), (1,0), (2,0), (3,0), (4,0), (5,0), (6,0), (7,0), (8,0), (9,0)",
	} {
		if _, err := a.db.ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func (a *accounts) add(account, n int) string {
	return fmt.Sprintf("UPDATE %s_account SET balance = balance + %d WHERE id = %d", a.table, n, account)
}

func (a *accounts) read(account int) string {
	return fmt.Sprintf("SELECT balance FROM %s_account WHERE id = %d", a.table, account)
}

// lock is read inside of a transaction that goes on to write.
func (a *accounts) lock(account int) string {
	if a.server.Dialect == fence.SQLite {
		return a.read(account)
	}
	return a.read(account) + " FOR UPDATE"
}

func (a *accounts) Balance(ctx context.Context, account int) (n int, err error) {
	err = a.db.QueryRowContext(ctx, a.read(account)).Scan(&n)
	return n, err
}

// sqlFence is a fence.SQL with accounts behind it.
type sqlFence struct {
	*accounts
	*fence.SQL
	conf  fence.SQLConfig
	again bool // Seal passes a guard, so that those to come may pass the short way
}

// levels are the names of database/sql's levels.
var levels = map[string]sql.IsolationLevel{
	"":                sql.LevelDefault,
	"Read Committed":  sql.LevelReadCommitted,
	"Repeatable Read": sql.LevelRepeatableRead,
	"Serializable":    sql.LevelSerializable,
}

func sqlSubject(s Server) fencetest.Subject {
	subject := fencetest.Subject{OneWriter: !manyWriters(s), Frees: manyWriters(s), Serializable: "Serializable"}
	for _, level := range s.Levels {
		if level != sql.LevelDefault {
			subject.Levels = append(subject.Levels, level.String())
		}
	}
	subject.New = func(t testing.TB, o fencetest.Options) fencetest.Fence {
		t.Helper()
		a := newAccounts(t, s)
		f := &sqlFence{accounts: a, conf: fence.SQLConfig{
			Table: a.table, Tx: sql.TxOptions{Isolation: levels[o.Level]}, Idle: o.Idle,
		}}
		var err error
		if f.SQL, err = fence.NewSQL(a.db, s.Dialect, f.conf); err != nil {
			t.Fatal(err)
		}
		if err := f.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f
	}
	return subject
}

func (f *sqlFence) Seal(ctx context.Context, tok shard.Token) error {
	err := f.SQL.Seal(ctx, tok)
	if err == nil && f.again {
		_ = f.SQL.Tx(ctx, tok, func(*sql.Tx) error { return nil }) // it may be fenced by now
	}
	return err
}

func (f *sqlFence) Add(ctx context.Context, tok shard.Token, account, n int) error {
	return f.Tx(ctx, tok, func(tx fencetest.Tx) error { return tx.Add(ctx, account, n) })
}

func (f *sqlFence) Begin(ctx context.Context) (fencetest.Tx, error) {
	tx, err := f.db.BeginTx(ctx, &f.conf.Tx)
	return &sqlTx{f, tx}, err
}

func (f *sqlFence) Tx(ctx context.Context, tok shard.Token, fn func(fencetest.Tx) error) error {
	return f.SQL.Tx(ctx, tok, func(tx *sql.Tx) error { return fn(&sqlTx{f, tx}) })
}

func (f *sqlFence) Advance(ctx context.Context, tx fencetest.Tx, tok shard.Token, stream string, next int64) error {
	return f.SQL.Advance(ctx, tx.(*sqlTx).tx, tok, stream, next)
}

func (f *sqlFence) Addr() string { return f.server.Addr }

func (f *sqlFence) Reopen(addr string) (fencetest.Fence, func()) {
	a := *f.accounts
	a.db = f.server.Via(addr)
	again, err := fence.NewSQL(a.db, f.server.Dialect, f.conf)
	if err != nil {
		panic(err) // it was well before
	}
	return &sqlFence{&a, again, f.conf, f.again}, func() { _ = a.db.Close() }
}

type sqlTx struct {
	f  *sqlFence
	tx *sql.Tx
}

func (x *sqlTx) Add(ctx context.Context, account, n int) error {
	_, err := x.tx.ExecContext(ctx, x.f.add(account, n))
	return err
}

func (x *sqlTx) Balance(ctx context.Context, account int) (n int, err error) {
	err = x.tx.QueryRowContext(ctx, x.f.lock(account)).Scan(&n)
	return n, err
}

func (x *sqlTx) Guard(ctx context.Context, tok shard.Token) error { return x.f.Guard(ctx, x.tx, tok) }
func (x *sqlTx) Commit(context.Context) error                     { return x.tx.Commit() }

func (x *sqlTx) Rollback(context.Context) error {
	if err := x.tx.Rollback(); err != sql.ErrTxDone {
		return err
	}
	return nil
}

// naiveFence is a sqlFence on Postgres with something done as one might.
type naiveFence struct {
	*sqlFence
	guard  string // instead of the guard, with {fence} and {wanted}; the client counts its rows
	before bool   // guards in a transaction of its own, before the write
	seal   string // instead of the seal, in one step
}

var naiveFences = map[string]struct {
	naiveFence
	fails []string
}{
	"EXISTS": {
		naiveFence{guard: "SELECT 1 FROM {fence} WHERE group_name = $1 AND shard = $2 AND epoch = $3"},
		[]string{"I6_SealWaitsForPassedGuard", "I6_CommitRacesSeal"},
	},
	"FOR KEY SHARE": {
		naiveFence{guard: "SELECT 1 FROM {fence} WHERE group_name = $1 AND shard = $2 AND epoch = $3 FOR KEY SHARE"},
		[]string{"I6_SealWaitsForPassedGuard", "I6_CommitRacesSeal"},
	},
	"check, then write": {naiveFence{before: true}, []string{"I6_SealWaitsForPassedGuard", "I6_ZombieInsideTransaction"}},
	"at least": {
		naiveFence{guard: "SELECT 1 FROM {fence} WHERE group_name = $1 AND shard = $2 AND epoch <= $3 FOR SHARE"},
		[]string{"I6_GuardDemandsEquality"},
	},
	"as a double": {
		naiveFence{guard: "SELECT 1 FROM {fence} WHERE group_name = $1 AND shard = $2 AND epoch::float8 = $3::bigint::float8 FOR SHARE"},
		[]string{"I6_EpochsBeyondDoubles"},
	},
	"no group id": {
		naiveFence{guard: "SELECT 1 FROM {fence} WHERE group_name = $1 AND shard = $2 AND epoch = $3 FOR SHARE"},
		[]string{"I6_ForeignGroup"},
	},
	"seal in one step": {naiveFence{
		guard: "SELECT 1 FROM {fence} WHERE group_name = $1 AND shard = $2 AND epoch = $3 FOR SHARE",
		seal:  "UPDATE {fence} SET epoch = $3 WHERE group_name = $1 AND shard = $2 AND epoch < $3",
	}, []string{"I6_OverlappingGuardsDoNotStarveSeal"}},
	"last one wins": {
		naiveFence{seal: "UPDATE {fence} SET epoch = $3 WHERE group_name = $1 AND shard = $2"},
		[]string{"I6_SealRefusesOlder"},
	},
}

func (f naiveFence) subject(s Server) fencetest.Subject {
	subject := sqlSubject(s)
	subject.Levels = nil
	subject.Patience = 3 * time.Second // one of them starves
	real := subject.New
	subject.New = func(t testing.TB, o fencetest.Options) fencetest.Fence {
		naive := f
		naive.sqlFence = real(t, o).(*sqlFence)
		return &naive
	}
	return subject
}

func (f *naiveFence) query(stmt string) string {
	return strings.NewReplacer("{fence}", f.table, "{wanted}", f.table+"_wanted").Replace(stmt)
}

func (f *naiveFence) Seal(ctx context.Context, tok shard.Token) error {
	first := tok
	first.Epoch = 1
	if f.seal == "" {
		return f.sqlFence.Seal(ctx, tok)
	}
	_ = f.sqlFence.Seal(ctx, first) // makes the row
	_, err := f.db.ExecContext(ctx, f.query(f.seal), tok.Group, tok.Shard, int64(tok.Epoch))
	return err
}

func (f *naiveFence) Add(ctx context.Context, tok shard.Token, account, n int) error {
	return f.Tx(ctx, tok, func(tx fencetest.Tx) error { return tx.Add(ctx, account, n) })
}

func (f *naiveFence) Begin(ctx context.Context) (fencetest.Tx, error) {
	tx, err := f.db.BeginTx(ctx, nil)
	return &naiveTx{sqlTx{f.sqlFence, tx}, f}, err
}

func (f *naiveFence) Tx(ctx context.Context, tok shard.Token, fn func(fencetest.Tx) error) error {
	tx, err := f.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Guard(ctx, tok); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

type naiveTx struct {
	sqlTx
	f *naiveFence
}

func (x *naiveTx) Guard(ctx context.Context, tok shard.Token) error {
	if x.f.before {
		check, err := x.f.sqlFence.Begin(ctx)
		if err != nil {
			return err
		}
		defer check.Rollback(ctx)
		return check.Guard(ctx, tok)
	}
	if x.f.guard == "" {
		return x.sqlTx.Guard(ctx, tok)
	}
	var one int
	err := x.tx.QueryRowContext(ctx, x.f.query(x.f.guard), tok.Group, tok.Shard, int64(tok.Epoch)).Scan(&one)
	if err != nil {
		_ = x.tx.Rollback()
		var current shard.Epoch
		_ = x.f.db.QueryRowContext(ctx, x.f.query("SELECT epoch FROM {fence} WHERE group_name = $1 AND shard = $2"), tok.Group, tok.Shard).Scan(&current)
		return fence.State{GroupID: tok.GroupID, Epoch: current, Wanted: current}.Refuse(tok)
	}
	return nil
}
