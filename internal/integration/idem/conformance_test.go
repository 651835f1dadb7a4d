package idem

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/idemtest"
	"github.com/tenure-go/tenure/idem/sqlidem"
)

func TestSQLite(t *testing.T) {
	idemtest.Suite{Open: func(t *testing.T) idemtest.Harness { return harness(t, sqlite(t), sqlidem.Config{}) }}.Run(t)
}

func TestPostgres(t *testing.T) {
	require(t, "TENURE_TEST_POSTGRES")
	idemtest.Suite{Open: func(t *testing.T) idemtest.Harness { return harness(t, postgres(t), sqlidem.Config{}) }}.Run(t)
}

func TestPostgres_Serializable(t *testing.T) {
	require(t, "TENURE_TEST_POSTGRES")
	c := sqlidem.Config{Tx: sql.TxOptions{Isolation: sql.LevelSerializable}}
	idemtest.Suite{Open: func(t *testing.T) idemtest.Harness { return harness(t, postgres(t), c) }}.Run(t)
}

func TestMariaDB(t *testing.T) {
	require(t, "TENURE_TEST_MARIADB")
	idemtest.Suite{Open: func(t *testing.T) idemtest.Harness { return harness(t, mariadb(t), sqlidem.Config{}) }}.Run(t)
}

// lossy knows the proxies behind stores, which lose a COMMIT once a function has run.
type lossy struct {
	mu      sync.Mutex // guards proxies
	proxies map[idem.Store]*proxy
}

func (l *lossy) add(s idem.Store, p *proxy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proxies == nil {
		l.proxies = make(map[idem.Store]*proxy)
	}
	l.proxies[s] = p
}

// arm makes the next COMMIT through s get lost, the first time.
func (l *lossy) arm(s idem.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.proxies[s]; p != nil {
		p.armed.Store(true)
		delete(l.proxies, s)
	}
}

func harness(t *testing.T, d database, c sqlidem.Config) idemtest.Harness {
	b, l := newBank(t, d), &lossy{}
	body := func(ctx context.Context, s idem.Store, account string, effect func() error) func(*sql.Tx) (int, error) {
		return func(tx *sql.Tx) (int, error) {
			n, err := b.deposit(ctx, tx, account)
			if err == nil && effect != nil {
				err = effect()
			}
			l.arm(s)
			return n, err
		}
	}
	step := func(options ...sqlidem.Option) func(context.Context, *idem.Op, string, string, func() error) (int, error) {
		return func(ctx context.Context, op *idem.Op, name, account string, effect func() error) (int, error) {
			return sqlidem.StepTx(ctx, op, name, body(ctx, op.Store(), account, effect), options...)
		}
	}
	h := idemtest.Harness{
		Open:   func(t testing.TB) idem.Store { return b.store(t, b.db, c) },
		Elapse: func(t testing.TB, d time.Duration) { b.elapse(t, d.Milliseconds()) },
		Step:   func(t testing.TB, d time.Duration) { b.elapse(t, d.Milliseconds()) },
		Tx: &idemtest.Tx{
			Do: func(ctx context.Context, e *idem.Engine, q idem.Request, account string, effect func() error) (int, error) {
				return sqlidem.DoTx(ctx, e, q, body(ctx, e.Store(), account, effect))
			},
			Step:    step(),
			Last:    step(sqlidem.Last),
			Balance: b.balance,
		},
	}
	if d.via != nil {
		h.Tx.LoseCommit = func(t testing.TB, applied bool) idem.Store {
			p := startProxy(t, d.addr, applied)
			s := b.store(t, d.via(t, p.addr()), c)
			l.add(s, p)
			return s
		}
	}
	return h
}
