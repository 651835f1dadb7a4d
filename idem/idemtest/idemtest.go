// Package idemtest is the conformance suite of idem's stores. Whoever writes a store runs it, and so
// do the stores of this module:
//
//	func TestStore(t *testing.T) {
//		idemtest.Suite{Open: func(t *testing.T) idemtest.Harness {
//			return idemtest.Harness{Open: func(t testing.TB) idem.Store { return mystore.New(…) }}
//		}}.Run(t)
//	}
//
// It checks what idem.Store promises, and then runs operations over the store with faults in between:
// each call's request or reply lost, a crash at each call, duplicates at once, contexts without any
// time left, clocks that step. After each it counts: what a third party was asked to do under each key,
// what is in the books, what callers were told.
package idemtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/shard"
)

// Suite is a store under test.
type Suite struct {
	// Open prepares a store for one test. Stores may be shared between tests: each test uses keys of
	// its own.
	Open func(t *testing.T) Harness

	// Bubble runs a test on virtual time (synctest.Test), Open included. Defaults to running it on
	// real time.
	Bubble func(t *testing.T, test func(t *testing.T))
}

// Harness is how a test reaches the store.
type Harness struct {
	// Open returns a connection of its own, as another process has it. The test does not close it.
	Open func(t testing.TB) idem.Store

	// Elapse lets that much time pass for the store. Defaults to waiting.
	Elapse func(t testing.TB, d time.Duration)

	// Step sets the store's clock forward, or back if d is negative, while no time passes. nil: it can't.
	Step func(t testing.TB, d time.Duration)

	// Tx is for stores that commit an effect together with the record. nil: it does not.
	Tx *Tx
}

// Tx is a bank in the database that holds the records.
type Tx struct {
	// Do is the package's DoTx, Step its StepTx, Last its StepTx with Last. The effect adds 1 to account, and the
	// result is the balance. effect, if not nil, runs inside the transaction after that; its error is
	// the function's.
	Do   func(ctx context.Context, e *idem.Engine, q idem.Request, account string, effect func() error) (int, error)
	Step func(ctx context.Context, op *idem.Op, name, account string, effect func() error) (int, error)
	Last func(ctx context.Context, op *idem.Op, name, account string, effect func() error) (int, error)

	// Balance is what is committed.
	Balance func(t testing.TB, account string) int

	// LoseCommit returns a connection on which the next COMMIT is lost: the request, or, with applied,
	// its reply. nil: it can't.
	LoseCommit func(t testing.TB, applied bool) idem.Store
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	if s.Bubble == nil {
		s.Bubble = func(t *testing.T, test func(*testing.T)) { test(t) }
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"Store_SwapOnCondition", testSwap},
		{"Store_KeepsBytes", testBytes},
		{"Store_OneWinner", testOneWinner},
		{"Store_Attempt", testAttempt},
		{"Store_ThreeClocks", testThreeClocks},

		{"RunsOnce", testRunsOnce},
		{"ScopesAndKeysNeverMeet", testScopes},
		{"Case_powertoolsts5705_FingerprintOnEveryPath", testFingerprint},
		{"ErrorsRunAgain", testErrors},
		{"FinalErrorIsKept", testFinal},
		{"PanicInterrupts", testPanic},
		{"StepsRunOnce", testSteps},
		{"StepKeyStaysTheSame", testStepKey},
		{"InterruptedBlocks", testBlock},
		{"InterruptedReconciles", testReconcile},
		{"DoubtStays", testDoubt},

		{"Case_powertoolspython4759_HigherEpochTakesOverAtOnce", testTakeover},
		{"LowerEpochCanNeitherFinishNorCheckpoint", testLowerEpoch},
		{"EpochsOfOtherGroupsDoNotCompare", testOtherGroup},
		{"AttemptIsExtended", testExtended},
		{"CrashedTryIsTakenOver", testCrashedTry},
		{"Case_fiber4287_OversizeIsNotExecutedAgain", testOversize},
		{"LateRetryExpires", testExpiry},
		{"Lookup", testLookup},
		{"LookupOfWhatHasNoResult", testLookupNoResult},
		{"LookupSeesTakeovers", testLookupTakeover},

		{"CancelledContextStillFinishes", testCancelled},
		{"ZeroRemainingTime", testZeroTime},
		{"LostAtEveryCall", testLostCalls},
		{"CrashAtEveryCall", testCrashes},
		{"UnresolvedFinish", testUnresolved},
		{"ConcurrentDuplicates", testDuplicates},
		{"RandomFaults", testRandomFaults},
		{"ClockSteps", testClockSteps},

		{"Tx_Do", testDoTx},
		{"Tx_Step", testStepTx},
		{"Tx_LastStep", testLastTx},
		{"Tx_Fails", testTxFails},
		{"Tx_ConcurrentDuplicates", testTxDuplicates},
		{"Tx_TakenOver", testTxTakenOver},
		{"Tx_CrashAtEveryCall", testTxCrashes},
		{"Tx_LostCommit", testLostCommit},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.Bubble(t, func(t *testing.T) {
				x := &fixture{Harness: s.Open(t), scope: fmt.Sprintf("%s-%d", t.Name(), rand.Uint64())}
				if len(test.name) > 3 && test.name[:3] == "Tx_" && x.Tx == nil {
					t.Skip("this store commits no effects of others")
				}
				test.run(t, x)
			})
		})
	}
}

// patience bounds what must happen, generously.
const patience = 30 * time.Second

// attempt is the tests' Config.Attempt: short, for there are stores on real time.
const attempt = 2 * time.Second

// fixture is a test's.
type fixture struct {
	Harness
	scope string
}

func (x *fixture) engine(t testing.TB, c idem.Config) *idem.Engine {
	t.Helper()
	return x.on(t, x.Harness.Open(t), c)
}

func (x *fixture) on(t testing.TB, s idem.Store, c idem.Config) *idem.Engine {
	t.Helper()
	if c.Attempt == 0 {
		c.Attempt = attempt
	}
	e, err := idem.New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (x *fixture) request(key string) idem.Request {
	return idem.Request{Scope: x.scope, Key: key, Fingerprint: idem.Fingerprint([]byte(key))}
}

// under is request by an owner of that epoch.
func (x *fixture) under(key string, revision int64) idem.Request {
	q := x.request(key)
	q.Token = token(revision)
	return q
}

// token is of lineage 33: above 2^53.
func token(revision int64) shard.Token {
	e, err := shard.NewEpoch(33, revision)
	if err != nil {
		panic(err)
	}
	return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: e}
}

// elapse lets d pass, and then waits for what is to be true by then.
func (x *fixture) elapse(t testing.TB, d time.Duration, done func() bool) {
	t.Helper()
	if x.Elapse != nil {
		x.Elapse(t, d)
	}
	x.eventually(t, done)
}

func (x *fixture) eventually(t testing.TB, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("did not happen within %s", patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// party is a third party that honours idempotency keys: what it is asked under one key it does once.
type party struct {
	mu    sync.Mutex // guards what follows
	asked map[string]int
	did   int
}

func newParty() *party { return &party{asked: make(map[string]int)} }

func (p *party) charge(_ context.Context, key string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[key] == 0 {
		p.did++
	}
	p.asked[key]++
	return "charge " + key, nil
}

// want checks that the party did just n things.
func (p *party) want(t testing.TB, n int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.did != n {
		t.Errorf("the third party did %d things, want %d: %v", p.did, n, p.asked)
	}
}

func wantAs[E error](t testing.TB, err error, outcome cas.Outcome) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("got error %v, want a %T", err, e)
	}
	if got := cas.OutcomeOf(err); got != outcome {
		t.Errorf("%v: outcome: got %s, want %s", err, got, outcome)
	}
	return e
}

func want[T comparable](t testing.TB, got T, err error, expect T) {
	t.Helper()
	if err != nil || got != expect {
		t.Fatalf("got %v, %v, want %v", got, err, expect)
	}
}
