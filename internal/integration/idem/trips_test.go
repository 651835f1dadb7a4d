package idem

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
)

// meter counts round trips: the turns from writing to reading.
type meter struct {
	trips atomic.Int64
}

type metered struct {
	net.Conn
	m       *meter
	written atomic.Bool
}

func (c *metered) Write(b []byte) (int, error) {
	c.written.Store(true)
	return c.Conn.Write(b)
}

func (c *metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.written.CompareAndSwap(true, false) {
		c.m.trips.Add(1)
	}
	return n, err
}

// cost is what one call takes.
type cost struct {
	trips   int64
	commits int
}

// TestPgx_Costs holds what the documentation says of round trips and commits.
func TestPgx_Costs(t *testing.T) {
	b, m := newBank(t, postgres(t)), &meter{}
	b.audit(t)
	pool := pgxPool(t, "", func(c *pgx.ConnConfig) {
		c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &metered{Conn: conn, m: m}, err
		}
	})
	s := pgxStore(t, pool, pgxidem.Config{}, b.table)
	e, err := idem.New(s, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	key := 0
	fresh := func() idem.Request {
		key++
		return idem.Request{Scope: t.Name(), Key: string(rune('a' + key))}
	}
	fn := func(tx pgx.Tx) (int, error) { return b.pgxDeposit(t.Context(), tx, "a") }
	done := fresh()
	step := func(options ...pgxidem.Option) func() error {
		return func() error {
			_, err := idem.Do(t.Context(), e, fresh(), func(ctx context.Context, op *idem.Op) (int, error) {
				return pgxidem.StepTx(ctx, op, "book", fn, options...)
			})
			return err
		}
	}
	nothing := func(context.Context, *idem.Op) (int, error) { return 1, nil }
	calls := map[string]func() error{
		"bare": func() error {
			return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { _, err := fn(tx); return err })
		},
		"DoTx":           func() error { _, err := pgxidem.DoTx(t.Context(), e, fresh(), fn); return err },
		"DoTx, replay":   func() error { _, err := pgxidem.DoTx(t.Context(), e, done, fn); return err },
		"Do":             func() error { _, err := idem.Do(t.Context(), e, fresh(), nothing); return err },
		"Do, replay":     func() error { _, err := idem.Do(t.Context(), e, done, nothing); return err },
		"Do with StepTx": step(),
		"Do with Last":   step(pgxidem.Last),
	}
	got := make(map[string]cost)
	for name, call := range calls {
		for i := range 4 { // statements are prepared by the first
			commits := b.commits(t)
			m.trips.Store(0)
			if err := call(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			now := cost{trips: m.trips.Load(), commits: b.commits(t) - commits}
			if i > 0 {
				now = cost{min(now.trips, got[name].trips), min(now.commits, got[name].commits)}
			}
			got[name] = now
		}
	}
	t.Logf("%+v", got)
	for name, want := range map[string]cost{
		"bare":           {3, 1},
		"DoTx":           {4, 1},
		"DoTx, replay":   {1, 0},
		"Do":             {2, 2},
		"Do, replay":     {1, 0},
		"Do with StepTx": {5, 3},
		"Do with Last":   {4, 2},
	} {
		if got[name] != want {
			t.Errorf("%s: got %+v, want %+v", name, got[name], want)
		}
	}
}

// TestPostgres_Costs holds what the documentation of sqlidem says of commits.
func TestPostgres_Costs(t *testing.T) {
	b := newBank(t, postgres(t))
	b.audit(t)
	e, err := idem.New(b.store(t, b.db, sqlidem.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	deposit := func(tx *sql.Tx) (int, error) { return b.deposit(t.Context(), tx, "a") }
	nothing := func(context.Context, *idem.Op) (int, error) { return 1, nil }
	steps := func(options ...[]sqlidem.Option) func(context.Context, *idem.Op) (int, error) {
		return func(ctx context.Context, op *idem.Op) (n int, err error) {
			for i, o := range options {
				if n, err = sqlidem.StepTx(ctx, op, fmt.Sprint("book", i), deposit, o...); err != nil {
					return n, err
				}
			}
			return n, nil
		}
	}
	do := func(fn func(context.Context, *idem.Op) (int, error)) func(idem.Request) error {
		return func(q idem.Request) error { _, err := idem.Do(t.Context(), e, q, fn); return err }
	}
	last := []sqlidem.Option{sqlidem.Last}
	for _, test := range []struct {
		name    string
		call    func(idem.Request) error
		commits int
	}{
		{"DoTx", func(q idem.Request) error { _, err := sqlidem.DoTx(t.Context(), e, q, deposit); return err }, 1},
		{"Do", do(nothing), 2},
		{"Do with StepTx", do(steps(nil)), 3},
		{"Do with Last", do(steps(last)), 2},
		{"Do with StepTx and Last", do(steps(nil, last)), 3},
	} {
		q := idem.Request{Scope: t.Name(), Key: test.name}
		for replay, want := range []int{test.commits, 0} {
			before := b.commits(t)
			if err := test.call(q); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if got := b.commits(t) - before; got != want {
				t.Errorf("%s, call %d: got %d commits, want %d", test.name, replay+1, got, want)
			}
		}
	}
}

// audit notes the transactions that write to b's tables. (Transaction ids alone would count those of other
// tests on the same server.)
func (b *bank) audit(t testing.TB) {
	t.Helper()
	b.exec(t, "CREATE TABLE "+b.table+"_audit (tx BIGINT NOT NULL)")
	b.exec(t, "CREATE FUNCTION "+b.table+"_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "+
		b.table+"_audit VALUES (txid_current()); RETURN NULL; END $$")
	for _, table := range []string{b.table, b.accounts} {
		b.exec(t, "CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON "+table+" FOR EACH ROW EXECUTE FUNCTION "+b.table+"_note()")
	}
	t.Cleanup(func() {
		b.exec(t, "DROP FUNCTION "+b.table+"_note CASCADE")
		b.exec(t, "DROP TABLE "+b.table+"_audit")
	})
}

// commits is how many transactions have written.
func (b *bank) commits(t testing.TB) int {
	t.Helper()
	return b.number(t, "SELECT count(DISTINCT tx) FROM "+b.table+"_audit")
}
