package layout

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/shard"
)

// Format is the version of the values that this program writes. A reader takes values of
// its own format and below. Fields may be added within a format, and readers ignore
// those that they don't know; a change that an older reader must not overlook raises it.
const Format = 1

// ErrFormat: a value of a format above Format. A newer program wrote it.
var ErrFormat = errors.New("layout: written by a newer version of this library")

// Config is the group's record. It is created once; later only an operator changes it.
type Config struct {
	Format  int        `json:"format"`
	ID      string     `json:"id"` // random: tells groups of one name in two stores apart
	Shards  int        `json:"shards"`
	Hash    shard.Hash `json:"hash"`
	Lineage int        `json:"lineage"`
}

// Member is a member's record. It changes seldom, because transactions compare it.
type Member struct {
	Format int `json:"format"`
	shard.Member
	Prepares bool  `json:"prepares,omitempty"` // warms up before it takes a shard
	TTL      int64 `json:"ttl_ms,omitempty"`   // of its lease, for those who wait for it to go
}

// Claim is the readable form of a claim; the key's lease says who holds it.
type Claim struct {
	Format int    `json:"format"`
	Member string `json:"member"`
}

// Move is the planner's order that a claim go to To.
type Move struct {
	Format int    `json:"format"`
	To     string `json:"to"`
	Ready  bool   `json:"ready,omitempty"` // the target has prepared
}

// Avoid says why a member can't start a shard, and for how long from the key's creation: the member
// deletes it then.
type Avoid struct {
	Format int    `json:"format"`
	Why    string `json:"why"`
	For    int64  `json:"for_ms"`
}

// Pin is an operator's wish that a shard be at Member.
type Pin struct {
	Format int    `json:"format"`
	Member string `json:"member"`
}

// Drain is an operator's wish that a member give all its shards away.
type Drain struct {
	Format int    `json:"format"`
	Why    string `json:"why"`
}

// Encode is v as the store keeps it. Records hold nothing that JSON can't, so it can't fail.
func Encode[R Config | Member | Claim | Move | Avoid | Pin | Drain](v R) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("layout: %T can't be JSON: %v", v, err))
	}
	return b
}

// Decode reads a value. On error the record is the zero value: ErrFormat if a newer
// program wrote it.
func Decode[R Config | Member | Claim | Move | Avoid | Pin | Drain](b []byte) (R, error) {
	var head struct {
		Format int `json:"format"`
	}
	var v, zero R
	if err := json.Unmarshal(b, &head); err != nil {
		return zero, fmt.Errorf("layout: unreadable value %.40q: %w", b, err)
	}
	if head.Format > Format {
		return zero, fmt.Errorf("%w: format %d, this one reads up to %d", ErrFormat, head.Format, Format)
	}
	if head.Format < 1 {
		return zero, fmt.Errorf("layout: value %.40q has no format", b)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return zero, fmt.Errorf("layout: unreadable value %.40q: %w", b, err)
	}
	return v, nil
}
