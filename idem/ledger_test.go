package idem_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/idemtest"
)

// ledger is a database in memory that commits records and balances together: the least that a package
// such as sqlidem has to be.
type ledger struct {
	mu       sync.Mutex // guards what follows
	rows     map[string]row
	balances map[string]int
	rev      int64
	step     time.Duration
}

type row struct {
	idem.Put
	rev     int64
	written time.Duration
	replay  time.Duration
	forget  time.Duration
}

// session is a connection to it.
type session struct {
	*ledger
	begun time.Time
	lose  string // what becomes of the next commit: "request", "reply", or ""
}

func (s *session) now() time.Duration { return time.Since(s.begun) + s.step }

// read returns what there is of id, with mu held.
func (s *session) read(id string) idem.Record {
	r, ok := s.rows[id]
	if !ok || s.now() >= r.forget {
		return idem.Record{}
	}
	rec := idem.Record{Rev: r.rev, Head: r.Head}
	if r.Attempt > 0 {
		// An end further off than an attempt is long was written before the clock stepped back.
		if s.now() < r.written {
			r.written = s.now()
			s.rows[id] = r
		}
		rec.Attempt = r.written + r.Attempt - s.now()
	}
	if s.now() < r.replay {
		rec.Body, rec.Replayable = r.Body, true
	}
	return rec
}

func (s *session) swap(id string, rev int64, p idem.Put) (int64, error) {
	if there := s.read(id); there.Rev != rev {
		return 0, &idem.ConflictError{Current: there}
	}
	s.rev++
	now := s.now()
	s.rows[id] = row{Put: p, rev: s.rev, written: now, replay: now + p.Replay, forget: now + p.Forget}
	return s.rev, nil
}

func (s *session) Get(ctx context.Context, id string) (idem.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return idem.Record{}, fmt.Errorf("%w: %w", cas.ErrUnavailable, ctx.Err())
	}
	return s.read(id), nil
}

func (s *session) Swap(ctx context.Context, id string, rev int64, p idem.Put) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%w: %w", cas.ErrUnavailable, ctx.Err())
	}
	return s.swap(id, rev, p)
}

func (s *session) Extend(_ context.Context, id string, rev int64, attempt time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.read(id); there.Rev != rev {
		return &idem.ConflictError{Current: there}
	}
	r := s.rows[id]
	r.Attempt, r.written = attempt, s.now()
	s.rows[id] = r
	return nil
}

// tx is a transaction: what it changes is seen at the commit.
type tx struct {
	*session
	balances map[string]int
}

func (tx *tx) add(account string) int {
	tx.balances[account]++
	return tx.balances[account]
}

// commit is an idem.Commit whose body runs in a tx.
func (s *session) commit(body **tx) idem.Commit {
	return func(ctx context.Context, t idem.Txn) (int64, error) {
		s.mu.Lock()
		there := s.read(t.ID)
		copied := &tx{s, maps.Clone(s.balances)}
		s.mu.Unlock()
		if ctx.Err() != nil {
			return 0, idem.Undone(ctx.Err())
		}
		if t.Hold && there.Rev != t.Rev {
			return 0, &idem.ConflictError{Current: there}
		}
		*body = copied
		p, err := t.Run()
		if err != nil {
			return 0, idem.Undone(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		lose := s.lose
		s.lose = ""
		if lose == "request" {
			return 0, cas.ErrUncertain
		}
		rev, err := s.swap(t.ID, t.Rev, p)
		if err != nil {
			return 0, err
		}
		maps.Copy(s.balances, copied.balances)
		if lose == "reply" {
			return 0, cas.ErrUncertain
		}
		return rev, nil
	}
}

func TestConformance_Ledger(t *testing.T) {
	idemtest.Suite{Open: openLedger, Bubble: synctest.Test}.Run(t)
}

func openLedger(*testing.T) idemtest.Harness {
	l := &ledger{rows: make(map[string]row), balances: make(map[string]int)}
	begun := time.Now()
	open := func(lose string) idem.Store { return &session{ledger: l, begun: begun, lose: lose} }
	body := func(tx **tx, account string, effect func() error) func() (int, error) {
		return func() (int, error) {
			n := (*tx).add(account)
			if effect == nil {
				return n, nil
			}
			return n, effect()
		}
	}
	step := func(last bool) func(context.Context, *idem.Op, string, string, func() error) (int, error) {
		return func(ctx context.Context, op *idem.Op, name, account string, effect func() error) (int, error) {
			var tx *tx
			return idem.StepIn(ctx, op, name, last, op.Store().(*session).commit(&tx), body(&tx, account, effect))
		}
	}
	return idemtest.Harness{
		Open:   func(testing.TB) idem.Store { return open("") },
		Elapse: func(_ testing.TB, d time.Duration) { time.Sleep(d) },
		Step: func(_ testing.TB, d time.Duration) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.step += d
		},
		Tx: &idemtest.Tx{
			Do: func(ctx context.Context, e *idem.Engine, q idem.Request, account string, effect func() error) (int, error) {
				var tx *tx
				return idem.DoIn(ctx, e, q, e.Store().(*session).commit(&tx), body(&tx, account, effect))
			},
			Step: step(false),
			Last: step(true),
			Balance: func(_ testing.TB, account string) int {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.balances[account]
			},
			LoseCommit: func(_ testing.TB, applied bool) idem.Store {
				return open(map[bool]string{false: "request", true: "reply"}[applied])
			},
		},
	}
}
