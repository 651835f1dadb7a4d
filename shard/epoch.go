package shard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Epoch is the fencing token: lineage<<48 | revision. A shard's epochs only grow; two
// shards may share one. It compares as an integer: store it as a SQL BIGINT, never as text,
// where "9" is above "10". The zero value is below every epoch and passes no fence.
//
// It has two written forms. People read "lineage:revision" (String, and MarshalText, so flags,
// logs and JSON object keys have it). Machines read the decimal of the int64 (Decimal): in JSON
// and in headers, and in JSON as a string, because from lineage 32 on the integer exceeds 2^53 and
// JavaScript and others would round it to another epoch.
type Epoch int64

// Bounds of an epoch's parts.
const (
	MaxLineage  = 1<<15 - 1
	MaxRevision = 1<<48 - 1
)

// NewEpoch joins lineage (0..MaxLineage) and revision (1..MaxRevision).
func NewEpoch(lineage int, revision int64) (Epoch, error) {
	if lineage < 0 || lineage > MaxLineage {
		return 0, fmt.Errorf("shard: lineage %d: want 0 to %d", lineage, MaxLineage)
	}
	if revision < 1 || revision > MaxRevision {
		return 0, fmt.Errorf("shard: revision %d: want 1 to %d", revision, int64(MaxRevision))
	}
	return Epoch(int64(lineage)<<48 | revision), nil
}

// Lineage counts the restores of the store from a backup that an operator has declared.
func (e Epoch) Lineage() int { return int(e >> 48) }

// Revision is the store's revision at which the claim was written.
func (e Epoch) Revision() int64 { return int64(e) & MaxRevision }

// String is "lineage:revision", such as "1:4812".
func (e Epoch) String() string {
	return strconv.Itoa(e.Lineage()) + ":" + strconv.FormatInt(e.Revision(), 10)
}

// Decimal is the int64 in decimal, such as "281474976715468": what headers carry.
func (e Epoch) Decimal() string { return strconv.FormatInt(int64(e), 10) }

// ParseEpoch reads what String prints. "0:0" is the zero Epoch.
func ParseEpoch(s string) (Epoch, error) {
	l, r, ok := strings.Cut(s, ":")
	lineage, err1 := strconv.ParseUint(l, 10, 15)
	rev, err2 := strconv.ParseUint(r, 10, 48)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("shard: epoch %.40q: want LINEAGE:REVISION, such as 1:4812, of at most %d:%d",
			s, MaxLineage, int64(MaxRevision))
	}
	return Epoch(int64(lineage)<<48 | int64(rev)), nil
}

// ParseDecimal reads what Decimal prints. "0" is the zero Epoch; a sign is an error.
func ParseDecimal(s string) (Epoch, error) {
	// 63 bits are exactly 15 of lineage and 48 of revision, so no further check of range is due.
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("shard: epoch %.40q: want a decimal from 0 to %d", s, int64(1<<63-1))
	}
	return Epoch(v), nil
}

// MarshalText is String; a negative e is an error.
func (e Epoch) MarshalText() ([]byte, error) {
	if e < 0 {
		return nil, fmt.Errorf("shard: epoch %d is negative", int64(e))
	}
	return []byte(e.String()), nil
}

// UnmarshalText is ParseEpoch; on error e is unchanged.
func (e *Epoch) UnmarshalText(b []byte) error {
	v, err := ParseEpoch(string(b))
	if err == nil {
		*e = v
	}
	return err
}

// MarshalJSON is Decimal in a string; a negative e is an error.
func (e Epoch) MarshalJSON() ([]byte, error) {
	if e < 0 {
		return nil, fmt.Errorf("shard: epoch %d is negative", int64(e))
	}
	return []byte(`"` + e.Decimal() + `"`), nil
}

// UnmarshalJSON reads a string in either written form, and leaves e as it is for null. A JSON
// number is refused even where it would be exact, so that a writer that uses numbers is found out
// before the lineage reaches 32. On error e is unchanged.
func (e *Epoch) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	if len(b) == 0 || b[0] != '"' {
		return fmt.Errorf("shard: epoch %.40s: want a JSON string, such as \"4812\": many readers round numbers above 2^53", b)
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("shard: epoch %.40s: %w", b, err)
	}
	parse := ParseDecimal
	if strings.Contains(s, ":") {
		parse = ParseEpoch
	}
	v, err := parse(s)
	if err == nil {
		*e = v
	}
	return err
}
