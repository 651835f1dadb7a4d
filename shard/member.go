package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a member.
const (
	MaxMemberID   = 255       // bytes
	MaxMemberText = 255       // bytes of Address, Zone and Version each
	MaxMeta       = 4 << 10   // bytes of all of Meta, keys and values
	MaxWeight     = 1_000_000 // and -MaxWeight the least
)

// Member is a node as others see it. Treat one that you were given as immutable: its Meta is
// shared. The zero value is invalid: it has no ID.
type Member struct {
	ID       string            `json:"id"`                // 1 to 255 bytes of UTF-8, no '/', no control characters
	Address  string            `json:"address,omitempty"` // host:port for peers
	Zone     string            `json:"zone,omitempty"`
	Version  string            `json:"version,omitempty"` // of the user's program
	Weight   int               `json:"weight"`            // its share relative to others, at most 1,000,000; <= 0 owns nothing
	Draining bool              `json:"draining,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"` // at most 4 KiB in all, UTF-8
}

// Validate names each bad field, what is wrong with it and what would do, all faults joined. It
// does not ask whether Address can be reached, or is one at all: an empty one is valid.
func (m Member) Validate() error {
	var errs []error
	bad := func(field, value, why string) {
		if why != "" {
			errs = append(errs, fmt.Errorf("shard: Member.%s %.80q: %s", field, value, why))
		}
	}
	bad("ID", m.ID, badID(m.ID))
	bad("Address", m.Address, badShort(m.Address))
	bad("Zone", m.Zone, badShort(m.Zone))
	bad("Version", m.Version, badShort(m.Version))
	if m.Weight < -MaxWeight || m.Weight > MaxWeight {
		errs = append(errs, fmt.Errorf("shard: Member.Weight %d: want %d to %d", m.Weight, -MaxWeight, MaxWeight))
	}
	size := 0
	var keys []string
	for k, v := range m.Meta {
		size += len(k) + len(v)
		// JSON would replace invalid bytes, and others would read another value than was set.
		if k == "" || !utf8.ValidString(k) || !utf8.ValidString(v) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		bad("Meta", k, "want a key that is not empty, and key and value in valid UTF-8")
	}
	if size > MaxMeta {
		errs = append(errs, fmt.Errorf("shard: Member.Meta: %d bytes of keys and values: want at most %d", size, MaxMeta))
	}
	return errors.Join(errs...)
}

func badID(id string) string {
	switch {
	case id == "":
		return "missing: want 1 to 255 bytes"
	case len(id) > MaxMemberID:
		return fmt.Sprintf("%d bytes: want at most %d", len(id), MaxMemberID)
	case strings.Contains(id, "/"):
		return "want no '/': it is one segment of a key"
	}
	return badText(id)
}

func badShort(s string) string {
	if len(s) > MaxMemberText {
		return fmt.Sprintf("%d bytes: want at most %d", len(s), MaxMemberText)
	}
	return badText(s)
}
