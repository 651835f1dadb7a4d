package fence

import "github.com/tenure-go/tenure/shard"

// State is what a resource remembers of one shard. It is for those who write a fence of their own:
// whatever the resource is, what it remembers is this, and Refuse is the rule. The zero value is a
// shard that was never sealed.
type State struct {
	GroupID string      // of the group that sealed first; "" if none has
	Epoch   shard.Epoch // that was sealed last: a guard must find its own
	Wanted  shard.Epoch // the highest that somebody has begun to seal; never below Epoch once Seal is through
}

// Refuse says why a guard under tok fails: *FencedError, ErrNotSealed or *GroupError; nil if it passes.
// A Seal under tok may go on if Refuse says ErrNotSealed, has nothing to do on nil, and fails else.
func (s State) Refuse(tok shard.Token) error {
	current := max(s.Epoch, s.Wanted)
	switch {
	case s.GroupID != "" && s.GroupID != tok.GroupID:
		return &GroupError{Group: tok.Group, Shard: tok.Shard, Mine: tok.GroupID, Theirs: s.GroupID}
	case current > tok.Epoch:
		return &FencedError{Mine: tok.Epoch, Current: current}
	case s.Epoch < tok.Epoch || s.Wanted < tok.Epoch:
		return ErrNotSealed
	}
	return nil
}
