package sqltest

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
	"github.com/tenure-go/tenure/shard"
)

// writes counts what a client sends.
type writes struct {
	net.Conn
	n *atomic.Int64
}

func (w writes) Write(p []byte) (int, error) {
	w.n.Add(1)
	return w.Conn.Write(p)
}

// What the package's documentation says of round trips.
func TestPgx_RoundTrips(t *testing.T) {
	f := newPgx(t)
	var n atomic.Int64
	c := f.pool.Config()
	c.MaxConns = 1
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return writes{conn, &n}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	again, err := pgxfence.New(pool, f.conf)
	if err != nil {
		t.Fatal(err)
	}
	x := &pgxFence{accounts: f.accounts, Fence: again, pool: pool, o: pgxFenceOptions{batch: true}}
	for what, verb := range map[string]struct {
		run  func() error
		want int64
	}{
		"Batch": {func() error { return x.Add(t.Context(), token(5), 1, 1) }, 1},
		"Tx": {func() error {
			return x.Tx(t.Context(), token(5), func(tx fencetest.Tx) error { return tx.Add(t.Context(), 1, 1) })
		}, 3},
	} {
		for _, first := range []bool{true, false} {
			n.Store(0)
			if err := verb.run(); err != nil {
				t.Error(err)
			}
			if got := n.Load(); !first && got != verb.want {
				t.Errorf("%s: got %d round trips, want %d", what, got, verb.want)
			}
		}
	}
}

// inside returns what the server says to a query in a transaction of f's.
func inside(t *testing.T, f *pgxfence.Fence, query string) (got []string) {
	t.Helper()
	err := f.Tx(t.Context(), token(5), func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), query)
		if err != nil {
			return err
		}
		got, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return got
}

func TestPgx_SettingsOnlyShortenAndStayInTheTransaction(t *testing.T) {
	f := newPgx(t)
	const show = "SELECT setting FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'tcp_user_timeout') ORDER BY name"
	for _, test := range []struct {
		idle, read string // what the session has
		limit      time.Duration
		want       []string // in ms
	}{
		{"700ms", "0", 1500 * time.Millisecond, []string{"700", "1500"}},
		{"1min", "600", 1500 * time.Millisecond, []string{"1500", "600"}},
		{"0", "0", 0, []string{"10000", "10000"}},
		{"700ms", "2000", -1, []string{"700", "2000"}},
	} {
		c := f.pool.Config()
		c.MaxConns = 1
		c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = test.idle
		c.ConnConfig.RuntimeParams["tcp_user_timeout"] = test.read
		pool, err := pgxpool.NewWithConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		x, err := pgxfence.New(pool, pgxfence.Config{Table: f.table, Idle: test.limit})
		if err != nil {
			t.Fatal(err)
		}
		outside := func() (got []string) {
			rows, _ := pool.Query(t.Context(), show)
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Error(err)
			}
			return got
		}
		before := outside()
		for range 2 {
			if diff := cmp.Diff(test.want, inside(t, x, show)); diff != "" {
				t.Errorf("session %s, %s, Idle %s (-want +got):\n%s", test.idle, test.read, test.limit, diff)
			}
		}
		if diff := cmp.Diff(before, outside()); diff != "" {
			t.Errorf("after (-before +after):\n%s", diff)
		}
		pool.Close()
	}
}

// What Tx sends first is no query, so fn may still lock before it has a snapshot.
func TestPgx_SnapshotIsOfTheFunctionsFirstQuery(t *testing.T) {
	f := pgxSubject(t, pgxFenceOptions{}).New(t, fencetest.Options{Level: "Repeatable Read"}).(*pgxFence)
	mustSeal(t, f, token(5))
	err := f.Fence.Tx(t.Context(), token(5), func(tx pgx.Tx) error {
		f.exec(t, f.add(1, 17))
		var got int
		err := tx.QueryRow(t.Context(), f.read(1)).Scan(&got)
		if got != 17 {
			t.Errorf("balance: got %d, want the 17 from before the first query", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// With Config.Terminate a Seal does not wait for a transaction of an older owner any longer than that,
// wherever it stands, and it finds no other's.
func TestPgx_TerminateEndsOlderTransactions(t *testing.T) {
	f := newPgx(t)
	conf := f.conf
	conf.Terminate = 100 * time.Millisecond
	x, err := pgxfence.New(f.pool, conf)
	if err != nil {
		t.Fatal(err)
	}
	other := token(5)
	other.Shard = 8
	mustSeal(t, f, other)

	begun, wake := make(chan struct{}, 2), make(chan struct{})
	held := func(tok int) <-chan error {
		done := make(chan error, 1)
		of := token(5)
		of.Shard = tok
		go func() {
			done <- x.Tx(context.Background(), of, func(tx pgx.Tx) error {
				_, err := tx.Exec(context.Background(), f.add(tok, 1)) // locks the account of that number
				begun <- struct{}{}
				<-wake
				return err
			})
		}()
		return done
	}
	zombie, innocent := held(7), held(8)
	<-begun
	<-begun
	names, err := pgx.CollectRows(must(f.pool.Query(t.Context(),
		"SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'tenure %' AND datname = current_database() ORDER BY right(application_name, 1)")), pgx.RowTo[string])
	if err != nil || len(names) != 2 || !strings.HasSuffix(names[0], " accounts/7") || !strings.HasSuffix(names[1], " accounts/8") {
		t.Errorf("sessions: got %q, %v, want those of accounts/7 and accounts/8", names, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := x.Seal(ctx, token(6)); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(ctx, token(6), 7, 5); err != nil { // its row is free
		t.Errorf("successor: %v", err)
	}
	close(wake)
	if err := <-zombie; err == nil {
		t.Error("the zombie's transaction was applied")
	}
	if err := <-innocent; err != nil {
		t.Errorf("another shard's owner: %v", err)
	}
	wantBalance(t, f, 7, 5)
	wantBalance(t, f, 8, 1)
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// sealer seals, by another pool, before it is asked why a guard was refused.
type sealer struct {
	*testing.T
	f   *pgxfence.Fence
	tok shard.Token
}

func (s *sealer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(q.SQL, "SELECT COALESCE(") {
		if err := s.f.Seal(ctx, s.tok); err != nil {
			s.Error(err)
		}
	}
	return ctx
}

func (s *sealer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Asked why, the database says that all is well by now.
func TestPgx_SealedWhenAskedWhy(t *testing.T) {
	f := pgxSubject(t, pgxFenceOptions{}).New(t, fencetest.Options{}).(*pgxFence)
	c := f.pool.Config()
	c.ConnConfig.Tracer = &sealer{t, f.Fence, token(1)}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	early, err := pgxfence.New(pool, f.conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := early.Tx(t.Context(), token(1), func(pgx.Tx) error { return nil }); !errors.Is(err, fence.ErrNotSealed) {
		t.Errorf("got %v, want ErrNotSealed", err)
	}
}
