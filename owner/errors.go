package owner

import (
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/internal/machine"
	"github.com/tenure-go/tenure/shard"
)

// ErrHandoff is the cause of a handler context that ended because the shard is handed over in
// good order: flush under Tenure.Context and return.
var ErrHandoff = errors.New("owner: handed over")

// ErrBusy: MaxWaiting requests wait for this shard already, or it was not served here within
// WaitTimeout. Not applied.
var ErrBusy error = &refusal{"owner: busy"}

// ErrNoTenure: the context does not come from Do, Enter or a Handler. In a server it means
// that the route is not wrapped. Not applied.
var ErrNoTenure error = &refusal{"owner: no tenure in context: it comes from no Do, Enter or Handler; is the route wrapped?"}

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

// NotOwnerError: not admitted, so not applied. Owner.ID is "" while nobody is known to own the shard.
type NotOwnerError struct {
	Shard int
	Owner shard.Member
	Epoch shard.Epoch // of Owner's claim; 0 if there is none
}

func (e *NotOwnerError) Error() string {
	if e.Owner.ID == "" {
		return fmt.Sprintf("owner: shard %d has no owner", e.Shard)
	}
	return fmt.Sprintf("owner: shard %d is owned by %s (epoch %s)", e.Shard, e.Owner.ID, e.Epoch)
}

// Outcome is NotApplied.
func (e *NotOwnerError) Outcome() cas.Outcome { return cas.NotApplied }

// LostError: the tenure has ended otherwise than by hand-off. Work that had begun may or may not
// have been applied; its fence knows.
type LostError struct {
	Token  shard.Token
	Reason string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("owner: lost shard %d (epoch %s): %s", e.Token.Shard, e.Token.Epoch, e.Reason)
}

// Outcome is Uncertain.
func (e *LostError) Outcome() cas.Outcome { return cas.Uncertain }

// ConfigError: the store's record of the group differs from the program's, for example
// Field "shards", Want "64" (the program's), Got "32" (the store's).
type ConfigError struct{ Field, Want, Got string }

func (e *ConfigError) Error() string {
	return fmt.Sprintf("owner: group config in the store has %s %s, this program has %s: "+
		"deploy one declaration everywhere, or give the group another name", e.Field, e.Got, e.Want)
}

// Outcome is NotApplied.
func (e *ConfigError) Outcome() cas.Outcome { return cas.NotApplied }

// IDTakenError: another live process has joined under this node's ID.
type IDTakenError struct{ Other shard.Member }

func (e *IDTakenError) Error() string {
	return fmt.Sprintf("owner: id %q is taken by a live member at %q: "+
		"leave Config.ID empty, or give each process an ID of its own", e.Other.ID, e.Other.Address)
}

// Outcome is NotApplied.
func (e *IDTakenError) Outcome() cas.Outcome { return cas.NotApplied }

// RestoredError: the store's revisions went back, or it is another cluster: it was restored from a backup, or
// the endpoints point elsewhere. Epochs granted from here on could be below those that fences have
// seen, so the node stops. Raise the group's lineage (Admin.RaiseLineage) and start again.
type RestoredError struct{ Was, Now int64 }

func (e *RestoredError) Error() string {
	if e.Now >= e.Was {
		return "owner: the store is another cluster than before: if it was restored from a backup, raise the group's lineage, then start again"
	}
	return fmt.Sprintf("owner: the store's revision went from %d back to %d: "+
		"if it was restored from a backup, raise the group's lineage, then start again", e.Was, e.Now)
}

// Outcome is NotApplied.
func (e *RestoredError) Outcome() cas.Outcome { return cas.NotApplied }

// exitError is the machine's reason to end in this package's words.
func exitError(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *machine.Mismatch:
		return &ConfigError{Field: e.Field, Want: e.Want, Got: e.Got}
	case *machine.Taken:
		return &IDTakenError{Other: e.Other}
	case *machine.Abandoned:
		return fmt.Errorf("owner: left while the store could not be reached: %d shards stay dark until this node's lease ends", e.Shards)
	case *machine.Restored:
		return &RestoredError{Was: e.Was, Now: e.Now}
	}
	return fmt.Errorf("owner: %w", err)
}
