package idem

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// InProgressError: another try is running now. This one has done nothing.
type InProgressError struct {
	// RetryAfter is until that try's attempt ends, if it has crashed. It may finish much sooner.
	RetryAfter time.Duration
}

func (e *InProgressError) Error() string {
	return fmt.Sprintf("idem: another try of this operation is in progress: ask again later, after %s at the latest", e.RetryAfter)
}

// Outcome is NotApplied: it speaks of this try.
func (e *InProgressError) Outcome() cas.Outcome { return cas.NotApplied }

// MismatchError: the key was used for something else. This try has done nothing.
type MismatchError struct{ Key string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("idem: key %.100q was used with another fingerprint: a new request needs a new key, and a retry has to repeat the first exactly", e.Key)
}

// Outcome is NotApplied.
func (e *MismatchError) Outcome() cas.Outcome { return cas.NotApplied }

// TooLargeError: the operation, or one of its steps, is done, and its result was not kept, because
// it was larger than Config.MaxResult or was streamed. It will not be done again.
type TooLargeError struct {
	Step string // "" if it is the operation's own result
	Size int    // bytes of the result as it would have been kept; -1 if nobody knows
}

func (e *TooLargeError) Error() string {
	what := "the operation"
	if e.Step != "" {
		what = fmt.Sprintf("step %q", e.Step)
	}
	size := "was streamed"
	if e.Size >= 0 {
		size = fmt.Sprintf("had %d bytes", e.Size)
	}
	return fmt.Sprintf("idem: %s is done, but its result %s and was not kept: read it from where the operation has stored it", what, size)
}

// Outcome is Applied.
func (e *TooLargeError) Outcome() cas.Outcome { return cas.Applied }

// ExpiredError: the operation has finished so long ago (Config.Keep) that its result is no longer
// kept. This try has done nothing.
type ExpiredError struct {
	Key     string
	outcome cas.Outcome
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("idem: the operation with key %.100q has finished, and its result has expired: it was not done again", e.Key)
}

// Outcome is that of the operation: Applied, if it did not end in a Final error.
func (e *ExpiredError) Outcome() cas.Outcome { return e.outcome }

// InterruptedError: an earlier try has ended without saying how, and Request.Interrupted is Block.
// This try has done nothing. Find out what the earlier one did, and call Settle or Reopen.
type InterruptedError struct {
	Key   string
	Tries int // so far
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("idem: try %d of the operation with key %.100q was interrupted, and nobody knows how far it came: find out, then call Settle or Reopen", e.Tries, e.Key)
}

// Outcome is Uncertain: it speaks of the operation.
func (e *InterruptedError) Outcome() cas.Outcome { return cas.Uncertain }

// SupersededError: a later owner of the shard has run this operation. This try has done nothing.
// The shard is lost: stop.
type SupersededError struct{ Mine, Current shard.Epoch }

func (e *SupersededError) Error() string {
	return fmt.Sprintf("idem: superseded: a later owner, of epoch %s, has run this operation; this one is of %s", e.Current, e.Mine)
}

// Outcome is NotApplied.
func (e *SupersededError) Outcome() cas.Outcome { return cas.NotApplied }

// LostError: while this try was running another one took over, because this one had not been heard of
// for Config.Attempt, or because a later owner came. What it did stays done, and nothing of it was
// recorded from then on.
type LostError struct{ Err error }

func (e *LostError) Error() string {
	return fmt.Sprintf("idem: another try has taken over from this one: %v", e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// Outcome is Uncertain: fn has run, as far as it came.
func (e *LostError) Outcome() cas.Outcome { return cas.Uncertain }

// FinishError: fn or a step has succeeded, but within Config.Finish the store could not be made to say that it
// was recorded. Try again with the same key: if it was recorded that try gets the result, and
// otherwise it runs fn again.
type FinishError struct {
	Step string // "" if it is the operation's own result
	Err  error
}

func (e *FinishError) Error() string {
	what := "the result"
	if e.Step != "" {
		what = fmt.Sprintf("step %q", e.Step)
	}
	return fmt.Sprintf("idem: %s may not have been recorded; try again with the same key: %v", what, e.Err)
}

func (e *FinishError) Unwrap() error { return e.Err }

// Outcome is Uncertain.
func (e *FinishError) Outcome() cas.Outcome { return cas.Uncertain }

// FailedError: the operation has ended, for good, in an error that was marked by Final. The try
// that ran can unwrap the error itself; later ones have only its text.
type FailedError struct {
	Message string
	Err     error // nil in later tries
	outcome cas.Outcome
}

func (e *FailedError) Error() string { return e.Message }
func (e *FailedError) Unwrap() error { return e.Err }

// Outcome is what the error said of itself when it was marked.
func (e *FailedError) Outcome() cas.Outcome { return e.outcome }

// ErrNoOp: the context comes from no Do, or from one that has ended.
var ErrNoOp error = refused("idem: no operation: the context comes from no Do, or HTTP, of this package")

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// opError says what was being done when err came, and what became of the operation.
type opError struct {
	op      string
	err     error
	outcome cas.Outcome
}

func (e *opError) Error() string        { return "idem: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error        { return e.err }
func (e *opError) Outcome() cas.Outcome { return e.outcome }

// Final marks fn's error as the operation's end: later tries get it, as a *FailedError, and don't run
// fn. Its Outcome is what err says of itself: Final(Undone(err)) also says that nothing was done; of an error that says
// nothing it is uncertain. nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// Undone marks fn's error as one that came before anything was done: then the next try is a first
// one, and no interruption. An error whose cas.Outcome is NotApplied, as of most of this library's, needs
// no mark. nil stays nil.
func Undone(err error) error {
	if err == nil {
		return nil
	}
	return &undoneError{err}
}

type undoneError struct{ error }

func (e *undoneError) Unwrap() error        { return e.error }
func (e *undoneError) Outcome() cas.Outcome { return cas.NotApplied }

// isFinal finds a mark of Final, also one that was wrapped.
func isFinal(err error) bool {
	_, ok := errors.AsType[*finalError](err)
	return ok
}
