package idem

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
)

type purger interface {
	idem.Store
	Purge(ctx context.Context) (int, error)
	Install(ctx context.Context) error
	Schema() string
}

func TestPurge_SQLite(t *testing.T)   { testPurge(t, sqlite(t), nil) }
func TestPurge_Postgres(t *testing.T) { testPurge(t, postgres(t), nil) }
func TestPurge_MariaDB(t *testing.T)  { testPurge(t, mariadb(t), nil) }
func TestPurge_Pgx(t *testing.T) {
	testPurge(t, postgres(t), func(b *bank) purger { return pgxStore(t, pgxPool(t, ""), pgxidem.Config{}, b.table) })
}

// Purge takes what has ended, a batch a commit, and nothing else.
func testPurge(t *testing.T, d database, open func(*bank) purger) {
	b := newBank(t, d)
	var s purger = b.store(t, b.db, sqlidem.Config{})
	if open != nil {
		s = open(b)
	}
	const old, young = 1203, 7
	done := idem.Put{Head: []byte("{}"), Body: []byte("x"), Replay: time.Hour, Forget: 100 * time.Hour}
	fill := func(n int, name string) {
		t.Helper()
		for i := range n {
			if _, err := s.Swap(t.Context(), fmt.Sprint(name, i), 0, done); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func(where string) int { return b.number(t, "SELECT COUNT(*) FROM "+b.table+" WHERE "+where) }
	fill(old, "old")
	if n, err := s.Purge(t.Context()); n != 0 || err != nil || count("body IS NULL") != 0 {
		t.Errorf("before its time: got %d, %v, %d bodies dropped", n, err, count("body IS NULL"))
	}
	b.elapse(t, (2 * time.Hour).Milliseconds())
	fill(young, "young")
	if n, err := s.Purge(t.Context()); n != 0 || err != nil || count("body IS NULL") != old {
		t.Errorf("when replays have ended: got %d, %v, %d bodies dropped, want %d", n, err, count("body IS NULL"), old)
	}
	b.elapse(t, (99 * time.Hour).Milliseconds())
	if n, err := s.Purge(t.Context()); n != old || err != nil || count("1 = 1") != young {
		t.Errorf("when tombstones have ended: got %d, %v, %d left, want %d and %d", n, err, count("1 = 1"), old, young)
	}
	if err := s.Install(t.Context()); err != nil {
		t.Errorf("Install again: %v", err)
	}
	if !strings.Contains(s.Schema(), "CREATE TABLE IF NOT EXISTS") {
		t.Errorf("Schema: got %q", s.Schema())
	}
}

// What finds the rows to purge is an index.
func TestPurge_UsesIndexes(t *testing.T) {
	b := newBank(t, postgres(t))
	b.exec(t, fmt.Sprintf("INSERT INTO %s SELECT 'id' || n, n, '{}', NULL, 0, 0, CASE WHEN n %% 2 = 0 THEN 0 ELSE 9e15::bigint + n END, 9e15::bigint + n FROM generate_series(1, 20000) n", b.table))
	b.exec(t, "ANALYZE "+b.table)
	for _, where := range []string{
		"forget_at <= 1000 ORDER BY forget_at LIMIT 500",
		"replay_until > 0 AND replay_until <= 1000 ORDER BY replay_until LIMIT 500",
	} {
		rows, err := b.db.QueryContext(t.Context(), "EXPLAIN SELECT id FROM "+b.table+" WHERE "+where)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, line)
		}
		if err := rows.Err(); err != nil || !strings.Contains(strings.Join(plan, "\n"), "Index") {
			t.Errorf("%s: got plan %q, %v, want one with an index", where, plan, err)
		}
	}
}

func TestMissingTableIsExplained(t *testing.T) {
	d := sqlite(t)
	s, err := sqlidem.New(d.open(t), d.dialect, sqlidem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a"); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v", err)
	}
}

func TestBadArguments(t *testing.T) {
	db := sqlite(t).open(t)
	for _, c := range []sqlidem.Config{{Table: "Bad"}, {Table: "a;drop"}} {
		if _, err := sqlidem.New(db, sqlidem.SQLite, c); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	if _, err := sqlidem.New(nil, 0, sqlidem.Config{}); err == nil {
		t.Error("nothing at all: got nil")
	}
	if _, err := pgxidem.New(nil, pgxidem.Config{Table: "Bad"}); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("pgxidem: got %v", err)
	}
}

func TestPurge_UnderAStep_Postgres(t *testing.T) { testPurgeUnderAStep(t, postgres(t), false) }
func TestPurge_UnderAStep_MariaDB(t *testing.T)  { testPurgeUnderAStep(t, mariadb(t), false) }
func TestPurge_UnderAStep_Pgx(t *testing.T)      { testPurgeUnderAStep(t, postgres(t), true) }

// A record that is purged while its step runs, which takes a clock that was set forward, takes the step's effect with it: nobody
// could tell later that it was had.
func testPurgeUnderAStep(t *testing.T, d database, viaPgx bool) {
	b := newBank(t, d)
	s := b.store(t, b.db, sqlidem.Config{})
	var store idem.Store = s
	step := func(ctx context.Context, op *idem.Op, then func()) (int, error) {
		return sqlidem.StepTx(ctx, op, "book", func(tx *sql.Tx) (int, error) {
			n, err := b.deposit(ctx, tx, "a")
			then()
			return n, err
		})
	}
	if viaPgx {
		store = pgxStore(t, pgxPool(t, ""), pgxidem.Config{}, b.table)
		step = func(ctx context.Context, op *idem.Op, then func()) (int, error) {
			return pgxidem.StepTx(ctx, op, "book", func(tx pgx.Tx) (int, error) {
				n, err := b.pgxDeposit(ctx, tx, "a")
				then()
				return n, err
			})
		}
	}
	e, err := idem.New(store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	q := idem.Request{Scope: t.Name(), Key: "k"}
	purge := func() {
		b.elapse(t, (10 * 24 * time.Hour).Milliseconds())
		if n, err := s.Purge(t.Context()); n != 1 || err != nil {
			t.Errorf("Purge: got %d, %v, want the running operation's record", n, err)
		}
	}
	_, err = idem.Do(t.Context(), e, q, func(ctx context.Context, op *idem.Op) (int, error) { return step(ctx, op, purge) })
	if _, lost := errors.AsType[*idem.LostError](err); !lost || b.balance(t, "a") != 0 {
		t.Errorf("got %v and a balance of %d, want a LostError and 0", err, b.balance(t, "a"))
	}
	got, err := idem.Do(t.Context(), e, q, func(ctx context.Context, op *idem.Op) (int, error) { return step(ctx, op, func() {}) })
	if got != 1 || err != nil || b.balance(t, "a") != 1 {
		t.Errorf("the next try: got %d, %v and a balance of %d, want 1", got, err, b.balance(t, "a"))
	}
}
