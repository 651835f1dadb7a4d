package cas

import "fmt"

// Outcome answers "was it applied?" for any error of this library; see OutcomeOf.
type Outcome int

const (
	// Uncertain may have been applied, or may yet be. It is the zero value, and what
	// an error from elsewhere counts as. Reading the old value proves nothing.
	Uncertain Outcome = iota
	// NotApplied was definitely not applied and never will be: safe to try again.
	NotApplied
	// Applied is OutcomeOf(nil), and of errors that came after the commit.
	Applied
)

func (o Outcome) String() string {
	switch o {
	case Uncertain:
		return "uncertain"
	case NotApplied:
		return "not applied"
	case Applied:
		return "applied"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// OutcomeOf finds the outcome that err carries, through wrapping. An error says it by
// a method Outcome() Outcome, and then what it wraps plays no part. Of several errors that
// are wrapped together, those that say nothing don't count, and if the others disagree the
// outcome is Uncertain. So is that of an error which says nothing at all.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	outcome, _ := said(err)
	return outcome
}

// said returns the outcome that err carries, if it carries one.
func said(err error) (outcome Outcome, ok bool) {
	switch e := err.(type) { // not errors.As, which would take the first of several at its word
	case interface{ Outcome() Outcome }:
		return e.Outcome(), true
	case interface{ Unwrap() error }:
		if err := e.Unwrap(); err != nil {
			return said(err)
		}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if err == nil {
				continue
			}
			o, says := said(err)
			switch {
			case !says:
			case !ok:
				outcome, ok = o, true
			case o != outcome:
				outcome = Uncertain
			}
		}
	}
	return outcome, ok
}

// outcomeError is a sentinel with an outcome.
type outcomeError struct {
	msg     string
	outcome Outcome
}

func (e *outcomeError) Error() string    { return e.msg }
func (e *outcomeError) Outcome() Outcome { return e.outcome }

// Errors of stores. Each may come wrapped with what was attempted.
var (
	// ErrUncertain: the reply was lost. The transaction may have been applied, or may yet be.
	ErrUncertain error = &outcomeError{"cas: outcome unknown", Uncertain}

	// ErrLeaseNotFound: the lease has expired or was revoked. Nothing was applied.
	ErrLeaseNotFound error = &outcomeError{"cas: lease not found", NotApplied}

	// ErrCompacted: the revision asked for is no longer kept. List again.
	ErrCompacted error = &outcomeError{"cas: revision compacted", NotApplied}

	// ErrFutureRev: the revision asked for is above the store's own. The store has been restored
	// from a backup, or it is another store.
	ErrFutureRev error = &outcomeError{"cas: revision above the store's: restored from a backup, or another store", NotApplied}

	// ErrNoLeader: the server asked has lost touch with its cluster, so what it says may be
	// old. Nothing was applied.
	ErrNoLeader error = &outcomeError{"cas: store has no leader", NotApplied}

	// ErrNoSpace: the store refuses writes because it is full. Leases can still be renewed.
	ErrNoSpace error = &outcomeError{"cas: store is full and refuses writes", NotApplied}

	// ErrUnavailable: the store could not be reached. A write was not sent; a read or a watch
	// got no answer.
	ErrUnavailable error = &outcomeError{"cas: store unavailable", NotApplied}

	// ErrDenied: the store refused the credentials or the permission. Nothing was applied.
	ErrDenied error = &outcomeError{"cas: permission denied", NotApplied}

	// ErrInvalid: the transaction itself is at fault (too many operations, a key twice, a value
	// above the store's limit). Trying again is of no use.
	ErrInvalid error = &outcomeError{"cas: invalid transaction", NotApplied}

	// ErrClosed: the store was closed.
	ErrClosed error = &outcomeError{"cas: store closed", NotApplied}
)

// decidedError is an error whose outcome does not depend on what it wraps: the wrapped one
// may be a function's own, and say something about something else.
type decidedError struct {
	what    string
	err     error
	outcome Outcome
}

func (e *decidedError) Error() string    { return e.what + ": " + e.err.Error() }
func (e *decidedError) Unwrap() error    { return e.err }
func (e *decidedError) Outcome() Outcome { return e.outcome }

func notApplied(what string, err error) error { return &decidedError{what, err, NotApplied} }

// ConflictError: a condition did not hold. Nothing was applied. A Commit that conflicted
// returns it as it is, or wrapped alone. (errors.AsType also looks into the cause of a
// context that has ended, and what it finds there is about another commit.)
type ConflictError struct {
	Rev     int64   // the store's revision when it refused
	Current []Entry // what was there, one for each distinct key in Txn.If, in its order
}

func (e *ConflictError) Error() string {
	if len(e.Current) == 1 {
		return fmt.Sprintf("cas: conflict on %q at revision %d", e.Current[0].Key, e.Current[0].Rev)
	}
	return fmt.Sprintf("cas: conflict among %d keys at revision %d", len(e.Current), e.Rev)
}

// Outcome is NotApplied; of a nil *ConflictError, which says nothing, Uncertain.
func (e *ConflictError) Outcome() Outcome {
	if e == nil {
		return Uncertain
	}
	return NotApplied
}
