package sqltest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
)

func newPgx(t *testing.T) *pgxFence {
	t.Helper()
	f := pgxSubject(t, pgxFenceOptions{batch: true}).New(t, fencetest.Options{}).(*pgxFence)
	mustSeal(t, f, token(5))
	return f
}

func TestPgx_BatchCallbacks(t *testing.T) {
	for _, mode := range []string{"", "exec", "simple_protocol"} {
		f := pgxSubject(t, pgxFenceOptions{mode: mode}).New(t, fencetest.Options{}).(*pgxFence)
		mustSeal(t, f, token(5))
		var got []string
		b := &pgx.Batch{}
		b.Queue(f.add(1, 7)).Exec(func(tag pgconn.CommandTag) error { got = append(got, tag.String()); return nil })
		b.Queue(f.read(1)).QueryRow(func(row pgx.Row) error {
			var n int
			err := row.Scan(&n)
			got = append(got, fmt.Sprint("balance ", n))
			return err
		})
		b.Queue("SELECT n FROM generate_series(1, 3) AS n").Query(func(rows pgx.Rows) error {
			ns, err := pgx.CollectRows(rows, pgx.RowTo[int])
			got = append(got, fmt.Sprint("rows ", ns))
			return err
		})
		b.Queue("SELECT 1 AS one").Query(func(rows pgx.Rows) error {
			type row struct{ One int }
			rs, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
			got = append(got, fmt.Sprint("structs ", rs))
			return err
		})
		b.Queue(f.add(2, 1)) // without one
		if err := f.Batch(t.Context(), token(5), b); err != nil {
			t.Errorf("mode %q: %v", mode, err)
		}
		if diff := cmp.Diff([]string{"UPDATE 1", "balance 7", "rows [1 2 3]", "structs [{1}]"}, got); diff != "" {
			t.Errorf("mode %q: callbacks (-want +got):\n%s", mode, diff)
		}
		wantBalance(t, f, 1, 7)
		wantBalance(t, f, 2, 1)
	}
}

// What a callback says comes too late, and that is what the error tells.
func TestPgx_BatchCallbackFailsTooLate(t *testing.T) {
	f := newPgx(t)
	boom := errors.New("boom")
	var n int
	for i, test := range []struct {
		name  string
		queue func(*pgx.Batch)
		want  error
	}{
		{"Exec", func(b *pgx.Batch) { b.Queue("SELECT 1").Exec(func(pgconn.CommandTag) error { return boom }) }, boom},
		{"no row", func(b *pgx.Batch) {
			b.Queue("SELECT 1 WHERE false").QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
		}, pgx.ErrNoRows},
		{"not decoded", func(b *pgx.Batch) {
			b.Queue("SELECT 'x'").QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
		}, nil},
		{"rows not decoded", func(b *pgx.Batch) {
			b.Queue("SELECT 'x'").Query(func(rows pgx.Rows) error {
				for rows.Next() {
					_ = rows.Scan(&n)
				}
				return rows.Err()
			})
		}, nil},
		{"rows not read", func(b *pgx.Batch) { b.Queue("SELECT 1").Query(func(pgx.Rows) error { return boom }) }, boom},
	} {
		b := &pgx.Batch{}
		b.Queue(f.add(1, 1))
		test.queue(b)
		b.Queue(f.add(2, 1))
		err := f.Batch(t.Context(), token(5), b)
		if err == nil || test.want != nil && !errors.Is(err, test.want) || cas.OutcomeOf(err) != cas.Applied {
			t.Errorf("%s: got %v (%s), want an error that is applied", test.name, err, cas.OutcomeOf(err))
		}
		wantBalance(t, f, 1, i+1)
		wantBalance(t, f, 2, i+1)
	}
}

func TestPgx_BatchRefused(t *testing.T) {
	f := newPgx(t)
	f.exec(t, "ALTER TABLE "+f.table+"_account ADD COLUMN other INTEGER REFERENCES "+f.table+"_account(id) DEFERRABLE INITIALLY DEFERRED")
	for name, stmt := range map[string]string{
		"22012": "SELECT 1 / 0",
		"42P01": "SELECT * FROM nowhere_at_all",
		"23503": "UPDATE " + f.table + "_account SET other = 99 WHERE id = 1", // at the commit
	} {
		swallowed := false
		b := &pgx.Batch{}
		b.Queue(f.add(1, 1))
		b.Queue(stmt).Exec(func(pgconn.CommandTag) error { return nil })
		b.Queue("SELECT 1").QueryRow(func(r pgx.Row) error {
			var n int
			swallowed = r.Scan(&n) != nil
			return nil
		})
		err := f.Batch(t.Context(), token(5), b)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != name || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: got %v (%s; %t), want it, not applied", name, err, cas.OutcomeOf(err), swallowed)
		}
		wantBalance(t, f, 1, 0)
	}
	b := &pgx.Batch{}
	b.Queue(f.add(1, 1))
	b.Queue("SELECT $1::int", make(chan int))
	if err := f.Batch(t.Context(), token(5), b); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("a parameter that can't be encoded: got %v (%s), want an error that is not applied", err, cas.OutcomeOf(err))
	}
	for _, tok := range []int64{4, 6} {
		b := &pgx.Batch{}
		b.Queue(f.add(1, 1))
		err := f.Batch(t.Context(), token(tok), b)
		_, fenced := errors.AsType[*fence.FencedError](err)
		if fenced != (tok == 4) || errors.Is(err, fence.ErrNotSealed) != (tok == 6) {
			t.Errorf("under revision %d: got %v", tok, err)
		}
	}
	wantBalance(t, f, 1, 0)
	if n := f.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections still in use", n)
	}
}

// A callback that panics leaves nothing open.
func TestPgx_BatchCallbackPanics(t *testing.T) {
	f := newPgx(t)
	func() {
		defer func() { _ = recover() }()
		b := &pgx.Batch{}
		b.Queue("SELECT 1").Exec(func(pgconn.CommandTag) error { panic("boom") })
		_ = f.Batch(t.Context(), token(5), b)
	}()
	if n := f.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections still in use", n)
	}
}

func TestPgx_BatchAdvances(t *testing.T) {
	f := newPgx(t)
	consume := func(next int64) error {
		b := &pgx.Batch{}
		b.Queue(f.add(1, 1))
		if err := f.QueueAdvance(b, token(5), "orders", next); err != nil {
			return err
		}
		return f.Batch(t.Context(), token(5), b)
	}
	for _, next := range []int64{0, 7, 100} {
		if err := consume(next); err != nil {
			t.Errorf("advance to %d: %v", next, err)
		}
		err := consume(next)
		if e, ok := errors.AsType[*fence.PositionError](err); !ok || *e != (fence.PositionError{Stream: "orders", Stored: next, Next: next}) {
			t.Errorf("advance to %d again: got %v, want a PositionError", next, err)
		}
	}
	wantBalance(t, f, 1, 3)
	if err := f.QueueAdvance(&pgx.Batch{}, token(5), "", 1); err == nil {
		t.Error("a stream without a name: got nil, want an error")
	}
	mustSeal(t, f, token(6))
	if _, ok := errors.AsType[*fence.FencedError](consume(200)); !ok {
		t.Error("want FencedError")
	}
}
