// Package attempt runs a transaction until its outcome is decided: again where the database refused it
// because of others, never again where it may have been applied, unless a receipt in the same
// transaction tells. It knows no driver: sqlcas and pgxcas bring their sessions.
package attempt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/dialect"
)

// Querier runs statements: a transaction, mostly.
type Querier interface {
	// Exec returns the number of rows that were changed.
	Exec(ctx context.Context, stmt string, args ...any) (int64, error)
	// Query calls each for every row, and reads to the end.
	Query(ctx context.Context, stmt string, args []any, each func(scan func(...any) error) error) error
}

// Session is one open transaction.
type Session interface {
	Querier
	// Commit ends it. It is not sent if ctx has ended.
	Commit(ctx context.Context) (Fate, error)
	// Rollback ends it otherwise, because of why: RolledBack, Gone or Ended. A guard that was refused rolls back by
	// itself, and says so (boundtx.GivenUp); any other error leaves it open how an ended transaction has ended.
	Rollback(why error) Fate
	// Close gives back what it holds, after a Rollback if it is still open.
	Close(ctx context.Context)
}

// Fate is how a transaction ended.
type Fate uint8

const (
	Lost       Fate = iota // a commit was sent, and nobody said what became of it
	Committed              // the database said so
	RolledBack             // nothing was applied: refused, or given up
	Gone                   // nothing was applied: the connection failed before a commit was sent
	Ended                  // the function ended it, or had the server do so
)

// Config is what an effort is made with.
type Config struct {
	Package    string // that errors name
	Dialect    dialect.Dialect
	Tries      int
	Idempotent bool             // what the function does may be done again after a lost commit
	Transient  func(error) bool // nil: nothing besides what Dialect knows
	Observe    func(cas.Effort) // nil: nobody
}

// DefaultTries is that of package cas.
const DefaultTries = 10

// ErrEnded is why the outcome of a transaction is unknown that its function ended.
var ErrEnded = errors.New("the function ended the transaction, which only its caller may, or kept quiet that the database had")

// Do runs fn in one session after the other, until one is decided. With a receipt that fn takes first,
// a lost commit is decided by the next session.
func Do[S Session](ctx context.Context, c Config, name string, begin func(context.Context) (S, error),
	receipt *Receipt, fn func(S) error,
) error {
	e := &effort{c: c, receipt: receipt, took: cas.Effort{Name: name}, began: time.Now()}
	err := run(ctx, e, begin, fn)
	if c.Observe != nil {
		e.took.Took, e.took.Outcome = time.Since(e.began), cas.OutcomeOf(err)
		c.Observe(e.took)
	}
	return err
}

func run[S Session](ctx context.Context, e *effort, begin func(context.Context) (S, error), fn func(S) error) error {
	for try := 1; ; try++ {
		fate, err := once(ctx, e, begin, fn)
		if fate == Committed {
			return nil
		}
		most, again := e.after(fate, err)
		switch {
		case !again:
			return e.fail(err)
		case try >= e.c.Tries:
			return e.fail(&Error{e.c.Package, fmt.Sprintf("%d tries", try), e.contended(most, err), cas.OutcomeOf(err)})
		}
		if cause := wait(ctx, try, most); cause != nil {
			return e.fail(&Error{e.c.Package, "gave up", fmt.Errorf("%w after %w", cause, err), cas.OutcomeOf(err)})
		}
	}
}

// effort is one call of Do.
type effort struct {
	c       Config
	receipt *Receipt // nil: a lost commit stays lost
	took    cas.Effort
	began   time.Time
	lost    error // a commit of which nothing is known yet
}

// errSettled is what a function returns that found its receipt applied.
var errSettled = errors.New("applied already")

// once runs one transaction.
func once[S Session](ctx context.Context, e *effort, begin func(context.Context) (S, error), fn func(S) error) (Fate, error) {
	s, err := begin(ctx)
	if err != nil {
		fate := RolledBack
		if e.c.Dialect.Dead(err) && ctx.Err() == nil {
			fate = Gone
		}
		return fate, e.notApplied("begin", err)
	}
	defer s.Close(ctx)
	if e.receipt != nil {
		if err = e.receipt.claim(ctx, s); err == nil || errors.Is(err, errSettled) {
			e.lost = nil // whatever was lost has ended, or the receipt would have been held
		}
		if errors.Is(err, errSettled) {
			s.Rollback(nil)
			return Committed, nil
		}
		if _, says := errors.AsType[*Error](err); says {
			return s.Rollback(err), err // it speaks of all tries, and not of this one
		}
		if err != nil {
			return e.gaveUp(s.Rollback(err), "receipt", err)
		}
	}
	e.took.Tries++
	if err := fn(s); err != nil {
		return e.gaveUp(s.Rollback(err), "transaction function", err)
	}
	fate, err := s.Commit(ctx)
	switch fate {
	case Committed:
		return fate, nil
	case Ended:
		return fate, &Error{e.c.Package, "commit", err, cas.Uncertain}
	case Lost:
		return fate, &Error{e.c.Package, "commit", fmt.Errorf("%w: %w", cas.ErrUncertain, err), cas.Uncertain}
	}
	return fate, e.notApplied("commit", err)
}

// gaveUp is the error of a transaction that was rolled back because of err.
func (e *effort) gaveUp(fate Fate, op string, err error) (Fate, error) {
	switch {
	case fate == Ended:
		return fate, &Error{e.c.Package, op, fmt.Errorf("%w: %w", ErrEnded, err), cas.Uncertain}
	case fate == Gone && !e.c.Dialect.Dead(err):
		fate = RolledBack // the function's own error is the reason, and the connection's end came on top
	}
	return fate, e.notApplied(op, err)
}

func (e *effort) notApplied(op string, err error) error {
	return &Error{e.c.Package, op, err, cas.NotApplied}
}

// after says whether a try that came to nothing is worth another one, and how long to wait for it.
func (e *effort) after(fate Fate, err error) (most time.Duration, again bool) {
	switch fate {
	case Ended:
		return 0, false
	case Lost:
		e.took.Lost++
		if e.receipt != nil {
			e.lost = err
		}
		return waitAway, e.receipt != nil || e.c.Idempotent
	case Gone:
		return waitAway, true
	}
	if e.c.Dialect.FaultOf(err) == dialect.Passing || errors.Is(err, errVanished) ||
		e.c.Transient != nil && e.c.Transient(err) {
		e.took.Conflicts++
		return waitContended, true
	}
	return 0, false
}

func (e *effort) contended(most time.Duration, err error) error {
	if most == waitContended {
		return fmt.Errorf("%w: %w", cas.ErrContended, err)
	}
	return err
}

// fail is err, unless an earlier try of this call may have been applied.
func (e *effort) fail(err error) error {
	if e.lost == nil {
		return err
	}
	if !errors.Is(err, e.lost) {
		err = fmt.Errorf("%w: %w", e.lost, err)
	}
	return &Error{e.c.Package, "the receipt could not be asked", err, cas.Uncertain}
}

// Waits are drawn evenly from 0 to a bound that doubles from waitFirst on: those who met once shall not
// meet again at the same moment.
const (
	waitFirst     = 2 * time.Millisecond
	waitContended = 64 * time.Millisecond  // most, after a conflict
	waitAway      = 250 * time.Millisecond // most, while the database does not answer
)

// wait returns nil after a random time, or the cause of ctx's end. n counts waits from 1.
func wait(ctx context.Context, n int, most time.Duration) error {
	if n < 8 {
		most = min(most, waitFirst<<(n-1))
	}
	t := time.NewTimer(rand.N(most))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Error says what was being done when Err came, and whether it was applied.
type Error struct {
	Package string
	Op      string
	Err     error
	Out     cas.Outcome
}

func (e *Error) Error() string        { return e.Package + ": " + e.Op + ": " + e.Err.Error() }
func (e *Error) Unwrap() error        { return e.Err }
func (e *Error) Outcome() cas.Outcome { return e.Out }
