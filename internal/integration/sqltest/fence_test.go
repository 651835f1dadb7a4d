package sqltest

import (
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/owner/fence/fencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFence_SQLite(t *testing.T)   { fencetest.Run(t, sqlSubject(SQLite(t))) }
func TestFence_Postgres(t *testing.T) { fencetest.Run(t, sqlSubject(Postgres(t))) }
func TestFence_MariaDB(t *testing.T)  { fencetest.Run(t, sqlSubject(MariaDB(t))) }

func TestFence_Pgx(t *testing.T) { fencetest.Run(t, pgxSubject(t, pgxFenceOptions{})) }

func TestFence_PgxBatch(t *testing.T) {
	fencetest.Run(t, pgxSubject(t, pgxFenceOptions{batch: true}))
}

// Guards that have passed pass again without the row.
func TestFence_PgxAgain(t *testing.T) {
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprintf("batch=%t", batch), func(t *testing.T) {
			fencetest.Run(t, pgxSubject(t, pgxFenceOptions{again: true, batch: batch}))
		})
	}
}

// The same through database/sql.
func TestFence_PostgresAgain(t *testing.T) {
	subject := sqlSubject(Postgres(t))
	first := subject.New
	subject.New = func(t testing.TB, o fencetest.Options) fencetest.Fence {
		f := first(t, o).(*sqlFence)
		f.again = true
		return f
	}
	fencetest.Run(t, subject)
}

// Half of the writes and seals go through database/sql, half through pgx, under one fence.
func TestFence_PgxBesideSQL(t *testing.T) {
	fencetest.Run(t, pgxSubject(t, pgxFenceOptions{mixed: true}))
}

// What a pooler asks for: no prepared statements.
func TestFence_PgxSimpleProtocol(t *testing.T) {
	for _, mode := range []string{"simple_protocol", "exec", "cache_describe"} {
		t.Run(mode, func(t *testing.T) {
			for _, batch := range []bool{false, true} {
				fencetest.Run(t, pgxSubject(t, pgxFenceOptions{mode: mode, batch: batch}),
					"I6_GuardDemandsEquality", "I6_NoOlderWriteAfterSeal", "I6_SealAll", "GuardFailsTheTransaction",
					"TxFunctionError", "TxContext", "PositionUnderFence", "ConnectionLostAtEachStepOfAWrite")
			}
		})
	}
}

// everySubject is each database and driver that fences are tested with.
func everySubject(t *testing.T, run func(*testing.T, fencetest.Subject)) {
	t.Run("SQLite", func(t *testing.T) { run(t, sqlSubject(SQLite(t))) })
	t.Run("Postgres", func(t *testing.T) { run(t, sqlSubject(Postgres(t))) })
	t.Run("MariaDB", func(t *testing.T) { run(t, sqlSubject(MariaDB(t))) })
	t.Run("Pgx", func(t *testing.T) { run(t, pgxSubject(t, pgxFenceOptions{})) })
	t.Run("PgxBatch", func(t *testing.T) { run(t, pgxSubject(t, pgxFenceOptions{batch: true})) })
}

func TestCase_etcd11456_PausedHolderWakesAndWrites(t *testing.T) {
	everySubject(t, func(t *testing.T, s fencetest.Subject) {
		fencetest.Run(t, s, "I6_NoOlderWriteAfterSeal", "I6_ZombieInsideTransaction")
	})
}

// lib/pq tried a statement again on a new connection when the first had broken after it was sent.
func TestCase_libpq939_LostReplyIsNotAppliedTwice(t *testing.T) {
	everySubject(t, func(t *testing.T, s fencetest.Subject) {
		fencetest.Run(t, s, "ConnectionLostAtEachStepOfAWrite")
	})
}

// The guards and seals that one might write instead. Each must fail, and by the test that is about it, or
// the suite proves nothing.
func TestNaiveFencesFailTheSuite(t *testing.T) {
	for name, naive := range naiveFences {
		t.Run(name, func(t *testing.T) {
			failed := fencetest.Faults(t, naive.subject(Postgres(t)), naive.fails...)
			for _, want := range naive.fails {
				if !slices.Contains(failed, want) {
					t.Errorf("%s does not fail", want)
				}
			}
		})
	}
}
