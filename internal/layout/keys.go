// Package layout is how a group lies in the store: which keys there are, what their values
// say, and View, the typed picture of one group that nodes, routers and tools follow.
//
// Under Prefix/Name/ of the group:
//
//	config                  format, shards, hash, lineage, random group id
//	members/<id>            a member's record, under its lease
//	claims/<shard>          that a member owns the shard, under the owner's lease
//	moves/<shard>           the planner's order that the claim go to a target, under the target's lease
//	avoid/<shard>/<member>  that the member can't start the shard for now, under its lease
//	pins/<shard>            an operator's wish: this shard there
//	drains/<id>             an operator's wish: that member gives all away
//	probes/<id>             put by a member before it closes a shard, to learn whether the store takes writes
//
// Shards are five digits, so that a listing is in order. Values are JSON with a format
// number, so that a listing is readable too. Who holds a key, and since when, is read from the key's
// metadata (lease, create and change revision) and never from its value: a value that
// this program can't read still counts.
package layout

import (
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/shard"
)

// Keys names a group's keys. The zero value is invalid; see For.
type Keys struct{ root string }

// DefaultPrefix is where groups lie that name no prefix.
const DefaultPrefix = "/tenure"

// For returns the keys of g, which must be valid.
func For(g shard.Group) Keys {
	prefix := g.Prefix
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return Keys{root: prefix + "/" + g.Name + "/"}
}

// Prefix is what every key of the group begins with.
func (k Keys) Prefix() string { return k.root }

// Config is the key of the group's config.
func (k Keys) Config() string { return k.root + "config" }

// Member is the key of a member's record.
func (k Keys) Member(id string) string { return k.root + "members/" + id }

// Claim is the key of a shard's claim.
func (k Keys) Claim(shard int) string { return k.root + "claims/" + digits(shard) }

// Move is the key of a shard's pending move.
func (k Keys) Move(shard int) string { return k.root + "moves/" + digits(shard) }

// Avoid is the key that says that member can't start shard for now.
func (k Keys) Avoid(shard int, member string) string {
	return k.root + "avoid/" + digits(shard) + "/" + member
}

// Pin is the key of an operator's pin.
func (k Keys) Pin(shard int) string { return k.root + "pins/" + digits(shard) }

// Drain is the key of an operator's drain.
func (k Keys) Drain(id string) string { return k.root + "drains/" + id }

// Probe is a key that a member puts, under its lease, to learn whether the store takes writes. Nobody reads it.
func (k Keys) Probe(id string) string { return k.root + "probes/" + id }

// Kind is what a key holds.
type Kind uint8

// The kinds of keys. Other is a key that this version does not know.
const (
	Other Kind = iota
	ConfigKey
	MemberKey
	ClaimKey
	MoveKey
	AvoidKey
	PinKey
	DrainKey
)

// Parse takes key apart. shard and id are set where the kind has them.
func (k Keys) Parse(key string) (kind Kind, shard int, id string) {
	rest, ok := strings.CutPrefix(key, k.root)
	if !ok {
		return Other, 0, ""
	}
	dir, rest, _ := strings.Cut(rest, "/")
	switch dir {
	case "config":
		if rest == "" {
			return ConfigKey, 0, ""
		}
	case "members":
		return MemberKey, 0, rest
	case "drains":
		return DrainKey, 0, rest
	case "claims":
		return ofShard(ClaimKey, rest)
	case "moves":
		return ofShard(MoveKey, rest)
	case "pins":
		return ofShard(PinKey, rest)
	case "avoid":
		n, member, _ := strings.Cut(rest, "/")
		kind, shard, _ = ofShard(AvoidKey, n)
		return kind, shard, member
	}
	return Other, 0, ""
}

func digits(shard int) string {
	s := strconv.Itoa(shard)
	if len(s) < 5 {
		s = "00000"[len(s):] + s
	}
	return s
}

func ofShard(kind Kind, s string) (Kind, int, string) {
	n, err := strconv.ParseUint(s, 10, 17)
	if err != nil || len(s) != 5 {
		return Other, 0, ""
	}
	return kind, int(n), ""
}
