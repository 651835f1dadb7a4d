package fencetest

import (
	"context"
	"testing"
	"time"

	"github.com/tenure-go/tenure/shard"
)

// Fence is a fence with accounts 0 to 9 behind it, as one process has it. Safe for concurrent use.
type Fence interface {
	// Seal is the fence's.
	Seal(ctx context.Context, tok shard.Token) error

	// Add adds n to an account, as one guarded write.
	Add(ctx context.Context, tok shard.Token, account, n int) error

	// Balance is what an account holds, as anybody sees it, without a guard.
	Balance(ctx context.Context, account int) (int, error)
}

// Transactional is a Fence whose guard is part of a transaction.
type Transactional interface {
	Fence

	// Begin begins a transaction that the suite takes through its steps itself.
	Begin(ctx context.Context) (Tx, error)

	// Tx runs fn in a transaction, guards, and commits. In this Tx fn only adds and reads.
	Tx(ctx context.Context, tok shard.Token, fn func(Tx) error) error
}

// Tx is an open transaction. One goroutine uses it at a time.
type Tx interface {
	Add(ctx context.Context, account, n int) error
	Balance(ctx context.Context, account int) (int, error) // locks the account, if that is how it is kept until the commit
	Guard(ctx context.Context, tok shard.Token) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error // after a failed Guard or a Commit it does nothing
}

// Positional is a Transactional that stores how far a stream has been consumed.
type Positional interface {
	Transactional
	Position(ctx context.Context, tok shard.Token, stream string) (int64, error)
	Advance(ctx context.Context, tx Tx, tok shard.Token, stream string, next int64) error
}

// GroupSealer is a Fence that can seal all of a group.
type GroupSealer interface {
	Fence
	SealAll(ctx context.Context, group string, lineage int) error
}

// Reopener is a Fence on a server.
type Reopener interface {
	Fence

	// Addr is the server's TCP address; "" if there is no network in between.
	Addr() string

	// Reopen returns the same fence and accounts as another process has them that connects to addr
	// instead: there the suite forwards to Addr, until it cuts the connection. The suite calls
	// release when it is done with it.
	Reopen(addr string) (f Fence, release func())
}

// Options are what a test asks of a new Fence.
type Options struct {
	Level string        // one of Subject.Levels; "" for the default
	Idle  time.Duration // if Subject.Frees: how long a paused transaction may hold what it has locked; 0 for any
}

// Subject is what is tested.
type Subject struct {
	// New makes a Fence of its own: nothing sealed, all accounts at 0. It ends with t.
	New func(t testing.TB, o Options) Fence

	// Levels are the isolation levels that New can make transactions of, if any, the default not included.
	Levels []string

	// Serializable are those of Levels at which the database may refuse any of several transactions,
	// for reasons that are not the fence's.
	Serializable string

	// OneWriter says that a transaction that has written keeps out all others, Seal too, until it ends.
	OneWriter bool

	// Frees says that Options.Idle is obeyed.
	Frees bool

	// Patience bounds what must happen. Defaults to 30s.
	Patience time.Duration
}

// T is what a test needs of *testing.T.
type T interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

type test struct {
	name string
	run  func(T, *fixture)
	need need
	idle time.Duration // Options.Idle
}

// need is what a test needs its subject to be.
type need uint8

const (
	transactions need = 1 << iota
	manyWriters       // not Subject.OneWriter
	positions
	sealAll
	network
	frees
	eachLevel // run it once per level
)

var suite = []test{
	{name: "I6_GuardDemandsEquality", run: testEquality},
	{name: "I6_ShardsAreApart", run: testShardsApart},
	{name: "I6_SealRefusesOlder", run: testSealRefusesOlder},
	{name: "I6_SealIsIdempotent", run: testSealIdempotent},
	{name: "I6_ConcurrentSeals", run: testConcurrentSeals},
	{name: "I6_EpochsBeyondDoubles", run: testExactEpochs},
	{name: "I6_ForeignGroup", run: testForeignGroup},
	{name: "I6_ForeignGroupsRace", run: testForeignRace},
	{name: "I6_NoOlderWriteAfterSeal", run: testRace, need: eachLevel},
	{name: "BadTokens", run: testBadTokens},
	{name: "EndedContext", run: testEndedContext},

	{name: "I6_SealAll", run: testSealAll, need: sealAll},
	{name: "I6_SealAllRacesFirstSeal", run: testSealAllRace, need: sealAll},

	{name: "I6_ZombieInsideTransaction", run: testZombieInside, need: transactions | manyWriters | eachLevel},
	{name: "I6_SealWaitsForPassedGuard", run: testSealWaits, need: transactions | eachLevel},
	{name: "I6_SealAllWaitsForPassedGuard", run: testSealAllWaits, need: transactions | sealAll | eachLevel},
	{name: "I6_AbandonedSealShutsOutOlder", run: testAbandonedSeal, need: transactions | manyWriters},
	{name: "I6_AbandonedSealAllShutsOutOlder", run: testAbandonedSealAll, need: transactions | manyWriters | sealAll},
	{name: "I6_OverlappingGuardsDoNotStarveSeal", run: testNoStarvation, need: transactions | manyWriters},
	{name: "I6_SnapshotFromBeforeTheSeal", run: testSnapshots, need: transactions | manyWriters | eachLevel},
	{name: "I6_CommitRacesSeal", run: testCommitRace, need: transactions | eachLevel},
	{name: "PausedZombieIsFreed", run: testFreed, need: transactions | manyWriters | frees, idle: time.Second},
	{name: "GuardFailsTheTransaction", run: testGuardFailsTransaction, need: transactions},
	{name: "TxAppliesOnce", run: testTxApplies, need: transactions},
	{name: "TxReadThenWrite", run: testReadThenWrite, need: transactions},
	{name: "TxFunctionError", run: testFnError, need: transactions},
	{name: "TxPanic", run: testPanic, need: transactions},
	{name: "TxContext", run: testContext, need: transactions},

	{name: "PositionOncePerBatch", run: testPositionOnce, need: positions},
	{name: "PositionUnderFence", run: testPositionFenced, need: positions},

	{name: "ConnectionLostAtEachStepOfAWrite", run: testLostAdd, need: network},
	{name: "ConnectionLostAtTheCommit", run: testLostCommit, need: network},
	{name: "ConnectionLostAtEachStepOfASeal", run: testLostSeal, need: network},
}
