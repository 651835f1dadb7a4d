package idem

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// state is where an operation stands.
//
//	           claim                 fn returned
//	(none) ─────────────► running ──────────────────► done, failed
//	                      ▲     │
//	      claim, takeover └─────┘ error: open
type state string

const (
	running state = "running" // by the holder of the claim, as long as its attempt lasts
	open    state = "open"    // by nobody: the last try gave up
	done    state = "done"    // with a result in the body, or one that was not kept
	failed  state = "failed"  // with a Final error in the body
)

const headFormat = 1

// head is a record's head. It is JSON, to be read by people and by other versions.
type head struct {
	Format int    `json:"format"`
	Scope  string `json:"scope"`
	Key    string `json:"key"`
	Print  string `json:"fingerprint"`
	State  state  `json:"state"`

	// Claim is drawn by the try that made the claim, and Write counts what it has written. Whoever lost a
	// reply finds out by them whether what is there is its own.
	Claim string `json:"claim"`
	Write int    `json:"write"`

	Token       *shard.Token    `json:"token,omitempty"` // of the latest owner, kept when it has let go
	Tries       int             `json:"tries"`
	Interrupted bool            `json:"interrupted,omitempty"` // of an open one: nobody knows how far it came
	Steps       map[string]memo `json:"steps,omitempty"`       // until it has finished
	Dropped     bool            `json:"dropped,omitempty"`     // the result was not kept
	Size        int             `json:"size,omitempty"`        // of a dropped one
	Outcome     cas.Outcome     `json:"outcome,omitempty"`     // of a failed one
}

// memo is a step that was recorded.
type memo struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Dropped bool            `json:"dropped,omitempty"`
	Size    int             `json:"size,omitempty"`
}

func (h *head) encode() ([]byte, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, &opError{"encoding the record", err, cas.NotApplied}
	}
	return b, nil
}

// decodeHead reads what is there. A record of a format that this program does not know may be done: so
// it is an error, and never a reason to run.
func decodeHead(r Record, q Request) (head, error) {
	var h head
	if err := json.Unmarshal(r.Head, &h); err != nil {
		return h, &opError{"the record can't be read, so nothing was run", err, cas.NotApplied}
	}
	if h.Format != headFormat {
		return h, refused("idem: the record has format %d, this program knows %d: nothing was run", h.Format, headFormat)
	}
	if h.Scope != q.Scope || h.Key != q.Key {
		return h, refused("idem: the record is of scope %.100q, key %.100q: is this store shared with something else?", h.Scope, h.Key)
	}
	switch h.State {
	case running, open, done, failed:
	default:
		return h, refused("idem: the record's state is %q, which this program does not know: nothing was run", h.State)
	}
	return h, nil
}

// compare is the check that every path makes before any other.
func (h *head) compare(q Request) error {
	if h.Print == q.print() {
		return nil
	}
	if !strings.HasPrefix(h.Print, printVersion) {
		return refused("idem: the fingerprint %.20q was made by another version of the program and can't be compared: nothing was run", h.Print)
	}
	return &MismatchError{Key: q.Key}
}

// replay is what a finished operation gives to later tries.
func (h *head) replay(r Record) (body []byte, err error) {
	switch {
	case h.Dropped:
		return nil, &TooLargeError{Size: h.Size}
	case h.State == done && r.Replayable:
		return r.Body, nil
	case h.State == done:
		return nil, &ExpiredError{Key: h.Key, outcome: cas.Applied}
	case !r.Replayable:
		return nil, &ExpiredError{Key: h.Key, outcome: h.Outcome}
	}
	var message string
	if err := json.Unmarshal(r.Body, &message); err != nil {
		message = fmt.Sprintf("idem: the operation has failed, but its error can't be read: %v", err)
	}
	return nil, &FailedError{Message: message, outcome: h.Outcome}
}

// rank compares tok with the latest owner's token: below 0 it is of an earlier owner, above 0 of a
// later one. Tokens of different shards, or of different groups of one name, have no order.
func (h *head) rank(tok shard.Token) int {
	t := h.Token
	if t == nil || tok.IsZero() || t.Group != tok.Group || t.GroupID != tok.GroupID || t.Shard != tok.Shard {
		return 0
	}
	switch {
	case tok.Epoch < t.Epoch:
		return -1
	case tok.Epoch > t.Epoch:
		return 1
	}
	return 0
}
