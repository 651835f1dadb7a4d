package writer

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
)

// ErrFull: the queue had no room for the command before the caller's context, or Config.Wait, ended. Not applied.
var ErrFull error = &sentinel{"writer: queue full: the shard gets more commands than it can apply", cas.NotApplied}

// ErrEnded: the tenure ended before the command was applied. Not applied: try again, at the shard's next owner. It comes
// wrapped with the reason, such as a *fence.FencedError.
var ErrEnded error = &sentinel{"writer: the tenure has ended", cas.NotApplied}

// ErrUnsettled: Apply returned without an error and had called neither Reply nor Reject: a bug in it. Applied.
var ErrUnsettled error = &sentinel{"writer: apply settled no reply: the command was applied; call Reply or Reject for each Cmd", cas.Applied}

// RejectedError: Apply said no to this command, and the rest of its batch was applied. Not applied.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return "writer: rejected: " + e.Err.Error() }

// Unwrap is what Reject was given.
func (e *RejectedError) Unwrap() error { return e.Err }

// Outcome is NotApplied, whatever Err says.
func (e *RejectedError) Outcome() cas.Outcome { return cas.NotApplied }

// NotApplied marks an error of Apply: definitely nothing of the batch was applied, or will be. The batch is then tried again,
// and split until the bad command stands alone; see Apply. It wraps err, and is nil if err is.
func NotApplied(err error) error {
	if err == nil {
		return nil
	}
	return &outcomeError{"writer: not applied: ", err, cas.NotApplied}
}

type sentinel struct {
	msg     string
	outcome cas.Outcome
}

func (e *sentinel) Error() string        { return e.msg }
func (e *sentinel) Outcome() cas.Outcome { return e.outcome }

func refused(format string, args ...any) error {
	return &sentinel{"writer: " + fmt.Sprintf(format, args...), cas.NotApplied}
}

// outcomeError is an error whose outcome does not depend on what it wraps.
type outcomeError struct {
	what    string
	err     error
	outcome cas.Outcome
}

func (e *outcomeError) Error() string        { return e.what + e.err.Error() }
func (e *outcomeError) Unwrap() error        { return e.err }
func (e *outcomeError) Outcome() cas.Outcome { return e.outcome }

// applyError is an error of Apply's as callers get it; nil if err is.
func applyError(err error) error {
	switch err.(type) {
	case nil, *panicError:
		return err
	}
	return &outcomeError{"writer: apply: ", err, cas.OutcomeOf(err)}
}

// panicError is a panic of Apply's. Its stack is for the node's log, not for callers.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string        { return fmt.Sprintf("writer: apply: panic: %v", e.value) }
func (e *panicError) Outcome() cas.Outcome { return cas.Uncertain }

// LogValue is slog.LogValuer's.
func (e *panicError) LogValue() slog.Value {
	return slog.StringValue(e.Error() + "\n" + string(e.stack))
}

// rowError is the last of mostFailures in a row.
type rowError struct{ err error }

func (e *rowError) Error() string {
	return fmt.Sprintf("%d tries in a row have failed, so the shard is opened anew: %v", mostFailures, e.err)
}
func (e *rowError) Unwrap() error        { return e.err }
func (e *rowError) Outcome() cas.Outcome { return cas.NotApplied }

// causedError is a sentinel with its reason.
type causedError struct {
	sentinel error
	cause    error
}

func (e *causedError) Error() string        { return e.sentinel.Error() + ": " + e.cause.Error() }
func (e *causedError) Is(target error) bool { return target == e.sentinel }
func (e *causedError) Unwrap() error        { return e.cause }
func (e *causedError) Outcome() cas.Outcome { return cas.OutcomeOf(e.sentinel) }

func endedBy(cause error) error { return &causedError{ErrEnded, cause} }

// mayRetry reports whether Apply's error says that the batch was not applied, and not that this owner is no longer the one.
// What it returns false for ends the tenure.
func mayRetry(t *owner.Tenure, err error) bool {
	if cas.OutcomeOf(err) != cas.NotApplied {
		return false
	}
	if errors.Is(err, fence.ErrNotSealed) || errors.Is(err, fence.ErrToken) {
		return false
	}
	if _, ok := errors.AsType[*fence.FencedError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*fence.GroupError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*fence.PositionError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*owner.LostError](err); ok {
		return false
	}
	if conflict, ok := errors.AsType[*cas.ConflictError](err); ok {
		guard := t.Guard()
		for _, e := range conflict.Current {
			if e.Key == guard.Key && !guard.Holds(e) {
				return false // the claim is gone, or another's
			}
		}
	}
	return true
}
