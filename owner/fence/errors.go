package fence

import (
	"fmt"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// ErrNotSealed: a guard found an epoch below its own. Either the tenure wrote before it sealed, or
// the resource has lost the seal (restarted, or failed over to a replica that had missed it). Not
// applied. End the tenure, so that the next one seals and loads state again.
var ErrNotSealed error = &refusal{"fence: not sealed under this epoch: call Seal before the first read and write; " +
	"if you did, the resource has forgotten it, so end the tenure and load again"}

// ErrToken: the token is the zero Token, or not one that a tenure has. Errors that say what is
// wrong with it wrap this one. Not applied.
var ErrToken error = &refusal{"fence: invalid token"}

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// FencedError: a newer owner has sealed. Not applied. Don't retry here: the shard is lost.
type FencedError struct {
	Mine    shard.Epoch // the refused token's
	Current shard.Epoch // what the resource knows; by now it may know a higher one
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("fence: fenced: a newer owner has sealed epoch %s, this one is %s", e.Current, e.Mine)
}

// Outcome is NotApplied.
func (e *FencedError) Outcome() cas.Outcome { return cas.NotApplied }

// Fenced is true: by it package owner, which can't import this one, knows the error to count it.
func (e *FencedError) Fenced() bool { return true }

// GroupError: the resource is fenced by another group of the same name, so the epochs of the two
// cannot be compared. Either two store clusters share the resource, or the group's records in the
// store were deleted and made anew. Not applied.
type GroupError struct {
	Group  string
	Shard  int
	Mine   string // the refused token's GroupID
	Theirs string // the GroupID that sealed first
}

func (e *GroupError) Error() string {
	return fmt.Sprintf("fence: shard %d of group %q is sealed by the group with id %q, this one's id is %q: "+
		"if etcd was restored or lost, put the group's config back (see Restore in docs/operations.md); if these are two groups, give each its own fence table; "+
		"if the other is gone for good, delete its rows there and in the _wanted table", e.Shard, e.Group, e.Theirs, e.Mine)
}

// Outcome is NotApplied.
func (e *GroupError) Outcome() cas.Outcome { return cas.NotApplied }

// PositionError: Advance to Next was refused because Stored is not below it. What this transaction
// consumed has been consumed before. Not applied, if the transaction is not committed.
type PositionError struct {
	Stream       string
	Stored, Next int64
}

func (e *PositionError) Error() string {
	return fmt.Sprintf("fence: stream %q has been consumed up to %d, so it can't advance to %d: "+
		"end the tenure, and go on from Position", e.Stream, e.Stored, e.Next)
}

// Outcome is NotApplied.
func (e *PositionError) Outcome() cas.Outcome { return cas.NotApplied }

// opError says what was being done when err came, and whether it was applied.
type opError struct {
	op      string
	err     error
	outcome cas.Outcome
}

func (e *opError) Error() string        { return "fence: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error        { return e.err }
func (e *opError) Outcome() cas.Outcome { return e.outcome }

func notApplied(op string, err error) error { return &opError{op, err, cas.NotApplied} }
