// Package fencetest is the conformance suite of SQL fences. It imports no driver: the module that
// has them (internal/integration) describes each database as a Server and calls Run.
package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Server is a database under test.
type Server struct {
	Dialect fence.Dialect

	// Open returns a new pool of connections to one database, the same each time. The test closes it.
	Open func(t testing.TB) *sql.DB

	// Via returns a pool that connects to addr, at which the suite forwards to Addr. nil if there
	// is no network to the database.
	Via  func(t testing.TB, addr string) *sql.DB
	Addr string

	// Levels are the isolation levels that the driver takes, the default included.
	Levels []sql.IsolationLevel

	// Sleep is a query that takes %d milliseconds; "" if the database has none.
	Sleep string
}

// manyWriters reports whether a transaction that has written lets others write.
func (s Server) manyWriters() bool { return s.Dialect != fence.SQLite }

// Run runs the suite.
func Run(t *testing.T, s Server) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Server)
	}{
		{"Install", testInstall},
		{"I6_GuardDemandsEquality", testEquality},
		{"I6_SealRefusesOlder", testSealRefusesOlder},
		{"I6_SealIsIdempotent", testSealIdempotent},
		{"I6_ConcurrentSeals", testConcurrentSeals},
		{"I6_EpochsBeyondDoubles", testExactEpochs},
		{"I6_ForeignGroup", testForeignGroup},
		{"I6_ForeignGroupsRace", testForeignRace},
		{"I6_SealMendsMissingRows", testMissingRows},
		{"I6_SealAll", testSealAll},
		{"I6_SealAllRacesFirstSeal", testSealAllRace},
		{"I6_SealWaitsForPassedGuard", testSealWaits},
		{"I6_AbandonedSealShutsOutOlder", testAbandonedSeal},
		{"I6_OverlappingGuardsDoNotStarveSeal", testNoStarvation},
		{"I6_NoOlderCommitAfterSeal", testRace},
		{"I6_SnapshotFromBeforeTheSeal", testSnapshots},
		{"PausedZombie", PausedHolder},
		{"PausedZombieIsFreed", testFreed},
		{"GuardFailsTheTransaction", testGuardFailsTransaction},
		{"GuardInAnotherConnection", testOneConnection},
		{"TxAppliesOnce", testTxApplies},
		{"TxFunctionError", testFnError},
		{"TxPanic", testPanic},
		{"TxContext", testContext},
		{"TxEndedByFunction", testEndedByFn},
		{"TxReadThenWrite", testReadThenWrite},
		{"TxLostCommit", testLostCommit},
		{"PositionOncePerBatch", testPositionOnce},
		{"PositionUnderFence", testPositionFenced},
		{"BadArguments", testBadArguments},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// patience bounds what must happen, generously; impatience what must not.
const (
	patience   = 30 * time.Second
	impatience = 150 * time.Millisecond
)

var tables atomic.Int64

// fixture is a fence of its own, and a table with accounts 1 to 3 at 0.
type fixture struct {
	Server
	db    *sql.DB
	fence *fence.SQL
	conf  fence.SQLConfig
}

func newFixture(t testing.TB, s Server, c fence.SQLConfig) *fixture {
	t.Helper()
	c.Table = fmt.Sprintf("fence_%d_%d", os.Getpid(), tables.Add(1))
	x := &fixture{Server: s, db: s.Open(t), conf: c}
	t.Cleanup(func() { x.drop(t) })
	x.fence = x.open(t, x.db)
	if err := x.fence.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.exec(t, "CREATE TABLE "+x.accounts()+" (id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)")
	x.exec(t, "INSERT INTO "+x.accounts()+" VALUES (1, 0), (2, 0), (3, 0)")
	return x
}

// open returns x's fence as another process has it.
func (x *fixture) open(t testing.TB, db *sql.DB) *fence.SQL {
	t.Helper()
	f, err := fence.NewSQL(db, x.Dialect, x.conf)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (x *fixture) drop(t testing.TB) {
	for _, suffix := range []string{"", "_wanted", "_position", "_account"} {
		if _, err := x.db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+x.conf.Table+suffix); err != nil {
			t.Errorf("drop: %v", err)
		}
	}
	if err := x.db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func (x *fixture) accounts() string { return x.conf.Table + "_account" }

func (x *fixture) exec(t testing.TB, stmt string) {
	t.Helper()
	if _, err := x.db.ExecContext(t.Context(), stmt); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

// deposit adds n to account id in tx.
func (x *fixture) deposit(ctx context.Context, tx *sql.Tx, id, n int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET balance = balance + %d WHERE id = %d", x.accounts(), n, id))
	return err
}

// depositTx is deposit in a transaction of f's.
func (x *fixture) depositTx(ctx context.Context, f *fence.SQL, tok shard.Token, id, n int) error {
	return f.Tx(ctx, tok, func(tx *sql.Tx) error { return x.deposit(ctx, tx, id, n) })
}

func (x *fixture) balance(t testing.TB, id int) int {
	t.Helper()
	var n int
	err := x.db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT balance FROM %s WHERE id = %d", x.accounts(), id)).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (x *fixture) wantBalance(t testing.TB, id, want int) {
	t.Helper()
	if got := x.balance(t, id); got != want {
		t.Errorf("balance of account %d: got %d, want %d", id, got, want)
	}
}

func (x *fixture) seal(t testing.TB, tok shard.Token) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := x.fence.Seal(ctx, tok); err != nil {
		t.Fatalf("Seal(%s): %v", tok, err)
	}
}

// token is of shard 7, in lineage 33: above 2^53.
func token(revision int64) shard.Token {
	e, err := shard.NewEpoch(33, revision)
	if err != nil {
		panic(err)
	}
	return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: e}
}

// wantFenced checks for a *FencedError with just these epochs.
func wantFenced(t testing.TB, err error, mine, current shard.Token) {
	t.Helper()
	e, ok := errors.AsType[*fence.FencedError](err)
	if !ok {
		t.Errorf("got %v, want a FencedError", err)
		return
	}
	if e.Mine != mine.Epoch || e.Current != current.Epoch {
		t.Errorf("got FencedError{Mine: %s, Current: %s}, want %s and %s", e.Mine, e.Current, mine.Epoch, current.Epoch)
	}
}

func wantIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}
