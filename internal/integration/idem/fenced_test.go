package idem

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem"
	"github.com/tenure-go/tenure/idem/sqlidem/pgxidem"
	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/shard"
)

func token(revision int64) shard.Token {
	return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: shard.Epoch(33<<48 | revision)}
}

// fenced is a store whose transactions are guarded.
type fenced struct {
	store idem.Store
	seal  func(ctx context.Context, tok shard.Token) error
	do    func(ctx context.Context, e *idem.Engine, q idem.Request) (int, error)
	step  func(ctx context.Context, op *idem.Op, last bool) (int, error)
}

func TestFenced_SQLite(t *testing.T)   { testFenced(t, sqlite(t), viaSQL) }
func TestFenced_Postgres(t *testing.T) { testFenced(t, postgres(t), viaSQL) }
func TestFenced_MariaDB(t *testing.T)  { testFenced(t, mariadb(t), viaSQL) }
func TestFenced_Pgx(t *testing.T)      { testFenced(t, postgres(t), viaPgx) }

func viaSQL(t *testing.T, b *bank) fenced {
	f, err := fence.NewSQL(b.db, b.dialect, fence.SQLConfig{Table: b.table + "_fence"})
	if err == nil {
		err = f.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	book := func(tx *sql.Tx) (int, error) { return b.deposit(t.Context(), tx, "a") }
	return fenced{
		store: b.store(t, b.db, sqlidem.Config{Fence: f}),
		seal:  f.Seal,
		do: func(ctx context.Context, e *idem.Engine, q idem.Request) (int, error) {
			return sqlidem.DoTx(ctx, e, q, book)
		},
		step: func(ctx context.Context, op *idem.Op, last bool) (int, error) {
			if last {
				return sqlidem.StepTx(ctx, op, "book", book, sqlidem.Last)
			}
			return sqlidem.StepTx(ctx, op, "book", book)
		},
	}
}

func viaPgx(t *testing.T, b *bank) fenced {
	pool := pgxPool(t, "")
	f, err := pgxfence.New(pool, pgxfence.Config{Table: b.table + "_fence"})
	if err == nil {
		err = f.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	book := func(tx pgx.Tx) (int, error) { return b.pgxDeposit(t.Context(), tx, "a") }
	return fenced{
		store: pgxStore(t, pool, pgxidem.Config{Fence: f}, b.table),
		seal:  f.Seal,
		do: func(ctx context.Context, e *idem.Engine, q idem.Request) (int, error) {
			return pgxidem.DoTx(ctx, e, q, book)
		},
		step: func(ctx context.Context, op *idem.Op, last bool) (int, error) {
			if last {
				return pgxidem.StepTx(ctx, op, "book", book, pgxidem.Last)
			}
			return pgxidem.StepTx(ctx, op, "book", book)
		},
	}
}

// A newer owner has sealed and has not looked at the operation yet. The older one's transaction is
// refused all the same, by the fence in its own commit.
func testFenced(t *testing.T, d database, open func(*testing.T, *bank) fenced) {
	b := newBank(t, d)
	t.Cleanup(func() {
		for _, stmt := range dialect.NewFence(d.dialect, b.table+"_fence").Drop {
			b.exec(t, stmt)
		}
	})
	x := open(t, b)
	e, err := idem.New(x.store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	seal := func(revision int64) {
		t.Helper()
		if err := x.seal(t.Context(), token(revision)); err != nil {
			t.Fatal(err)
		}
	}
	wantFenced := func(err error) {
		t.Helper()
		if _, ok := errors.AsType[*fence.FencedError](err); !ok || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v (%s), want it fenced, not applied", err, cas.OutcomeOf(err))
		}
	}
	balance := 0
	for i, last := range []bool{false, true} {
		now := int64(5 + 2*i)
		seal(now)
		q := idem.Request{Scope: t.Name(), Key: map[bool]string{false: "step", true: "last"}[last], Token: token(now)}
		step := func(ctx context.Context, op *idem.Op) (int, error) { return x.step(ctx, op, last) }
		_, err := idem.Do(t.Context(), e, q, func(ctx context.Context, op *idem.Op) (int, error) {
			seal(now + 1)
			n, err := step(ctx, op)
			wantFenced(err)
			return n, err
		})
		wantFenced(err)
		if got := b.balance(t, "a"); got != balance {
			t.Errorf("%s: balance: got %d, want %d", q.Key, got, balance)
		}
		balance++
		q.Token = token(now + 1)
		for range 2 {
			if got, err := idem.Do(t.Context(), e, q, step); got != balance || err != nil {
				t.Errorf("%s: the newer owner: got %d, %v, want %d", q.Key, got, err, balance)
			}
		}
	}
	q := idem.Request{Scope: t.Name(), Key: "do", Token: token(7)}
	_, err = x.do(t.Context(), e, q)
	wantFenced(err)
	q.Token = shard.Token{}
	if _, err = x.do(t.Context(), e, q); !errors.Is(err, fence.ErrToken) {
		t.Errorf("without a token: got %v", err)
	}
	q.Token = token(8)
	for range 2 {
		if got, err := x.do(t.Context(), e, q); got != 3 || err != nil {
			t.Errorf("the newer owner: got %d, %v, want 3", got, err)
		}
	}
	if got := b.balance(t, "a"); got != 3 {
		t.Errorf("balance: got %d, want 3", got)
	}
}
