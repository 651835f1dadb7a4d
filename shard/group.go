package shard

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a group.
const (
	MaxShards    = 1 << 16
	MaxGroupName = 63  // bytes
	MaxPrefix    = 255 // bytes
)

// DefaultPrefix is where groups lie in the store unless Group.Prefix says otherwise.
const DefaultPrefix = "/tenure"

// Group names one set of shards. Declare it once, in a package that nodes, gateways and
// producers all import. It is a value: copy it freely. The zero value is invalid; a name and a
// number of shards make a valid one.
type Group struct {
	Name   string // [a-z0-9-], at most 63, no '-' at either end
	Shards int    // 1..65536, fixed for life: 10 to 30 times the most nodes you will run
	Hash   Hash   // Defaults to XXH64
	Prefix string // Defaults to "/tenure"; keys lie under Prefix/Name/
}

// Single is a group of one shard, that is, a singleton: one node at a time owns it.
func Single(name string) Group { return Group{Name: name, Shards: 1} }

// WithDefaults is g with each empty field that has a default set to it. Two groups are the same if
// their WithDefaults are equal (==).
func (g Group) WithDefaults() Group {
	if g.Hash == "" {
		g.Hash = XXH64
	}
	if g.Prefix == "" {
		g.Prefix = DefaultPrefix
	}
	return g
}

// Of returns key's shard, 0..Shards-1: hash(key) mod Shards. The key is any bytes, taken as they
// are: not as text, not normalized, up to any length. The empty key is a key like others (for
// Murmur2 too: Kafka treats only a *null* key in another way). Of does not allocate, and is
// cheapest where Shards is a power of two. An invalid g gives 0: Validate it once, at start.
func (g Group) Of(key string) int { return place(key, g.Shards, g.Hash == Murmur2) }

// Validate checks g with its defaults filled in. It names each bad field, what is wrong with it
// and what would do, all faults joined.
func (g Group) Validate() error {
	g = g.WithDefaults()
	var errs []error
	if why := g.badName(); why != "" {
		errs = append(errs, fmt.Errorf("shard: Group.Name %.80q: %s", g.Name, why))
	}
	if g.Shards < 1 || g.Shards > MaxShards {
		errs = append(errs, fmt.Errorf("shard: Group.Shards %d: want 1 to %d", g.Shards, MaxShards))
	}
	if g.Hash != XXH64 && g.Hash != Murmur2 {
		errs = append(errs, fmt.Errorf("shard: Group.Hash %.80q: want %q or %q", g.Hash, XXH64, Murmur2))
	}
	if why := g.badPrefix(); why != "" {
		errs = append(errs, fmt.Errorf("shard: Group.Prefix %.80q: %s", g.Prefix, why))
	}
	return errors.Join(errs...)
}

func (g Group) badName() string {
	switch {
	case g.Name == "":
		return "missing: want 1 to 63 of a-z, 0-9 and '-'"
	case len(g.Name) > MaxGroupName:
		return fmt.Sprintf("%d bytes: want at most %d", len(g.Name), MaxGroupName)
	case g.Name[0] == '-' || g.Name[len(g.Name)-1] == '-':
		return "want no '-' at either end"
	}
	for _, r := range g.Name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return fmt.Sprintf("has %q: want only a-z, 0-9 and '-'", r)
		}
	}
	return ""
}

func (g Group) badPrefix() string {
	switch {
	case len(g.Prefix) > MaxPrefix:
		return fmt.Sprintf("%d bytes: want at most %d", len(g.Prefix), MaxPrefix)
	case g.Prefix[0] != '/':
		return "want a leading '/'"
	case g.Prefix[len(g.Prefix)-1] == '/':
		return "want no trailing '/'"
	case strings.Contains(g.Prefix, "//"):
		return "want no empty segment (\"//\")"
	}
	return badText(g.Prefix)
}

// String is for people: "accounts (64 shards, xxh64, /tenure)".
func (g Group) String() string {
	g = g.WithDefaults()
	return fmt.Sprintf("%s (%d shards, %s, %s)", g.Name, g.Shards, g.Hash, g.Prefix)
}

// badText says why s can't stand in a key or a log line, or "".
func badText(s string) string {
	if !utf8.ValidString(s) {
		return "want valid UTF-8"
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return fmt.Sprintf("has a control character at byte %d: want none", i)
	}
	return ""
}
