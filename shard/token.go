package shard

import "fmt"

// Token goes with every side effect, so that the resource can refuse an owner that has been
// replaced. It is a value, comparable with ==. The zero value passes no fence.
//
// A token is a statement, not a credential: whoever can write JSON can make one up. Believe it only
// from a peer that you have authenticated.
type Token struct {
	Group   string `json:"group"`
	GroupID string `json:"group_id"` // random, from the group's config: two clusters with one name are told apart
	Shard   int    `json:"shard"`
	Epoch   Epoch  `json:"epoch"` // a string in JSON; see Epoch
}

// IsZero reports whether t is the zero Token.
func (t Token) IsZero() bool { return t == Token{} }

// String is for people: "accounts/00012@1:4812".
func (t Token) String() string { return fmt.Sprintf("%s/%05d@%s", t.Group, t.Shard, t.Epoch) }
