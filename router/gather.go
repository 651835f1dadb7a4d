package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// GatherConfig configures Gather. The zero value is good; what is zero or less has its default.
type GatherConfig struct {
	// Timeout is how long nodes have to answer. All are asked at once; an owner that nobody knows is looked for as long.
	// Defaults to 10s.
	Timeout time.Duration

	// MaxPart is how many bytes of JSON one node's answer may have. Defaults to 8 MiB.
	MaxPart int
}

// Gathered is what came of a question to all owners. Each shard of the group is in exactly one part, or missing.
type Gathered[T any] struct {
	Parts   []Part[T]
	Missing []Missing // none: the answer is complete
}

// Part is what one node has answered, for some shards. A node may have more than one, if it was asked again for
// shards that had moved to it meanwhile.
type Part[T any] struct {
	Member string       // the node's ID
	Shards []ShardEpoch // that it answered for, in their order
	Value  T
}

// ShardEpoch is a shard and the epoch under which its owner answered.
type ShardEpoch struct {
	Shard int         `json:"shard"`
	Epoch shard.Epoch `json:"epoch"`
}

// Missing are shards for which nobody has answered, and why not.
type Missing struct {
	Shards []int
	Err    error
}

// Err is nil if every shard has answered, else a *PartialError, which WriteError answers with 503.
func (g *Gathered[T]) Err() error {
	if len(g.Missing) == 0 {
		return nil
	}
	return &PartialError{Missing: g.Missing}
}

// PartialError: some shards did not answer a question to all.
type PartialError struct{ Missing []Missing }

func (e *PartialError) Error() string {
	var b strings.Builder
	b.WriteString("router: shards did not answer: ")
	for i, m := range e.Missing {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %v", ranges(m.Shards), m.Err)
	}
	return b.String()
}

// Unwrap is why.
func (e *PartialError) Unwrap() []error {
	var all []error
	for _, m := range e.Missing {
		all = append(all, m.Err)
	}
	return all
}

// partError: a node has answered, and not for these shards.
type partError struct{ member, why string }

func (e *partError) Error() string        { return fmt.Sprintf("router: %s: %s", e.member, e.why) }
func (e *partError) Outcome() cas.Outcome { return cas.NotApplied }

// Outcome is NotApplied: what Gather asks for applies nothing.
func (e *PartialError) Outcome() cas.Outcome { return cas.NotApplied }

// Gather answers questions that span shards: accounts above a balance, totals, a search. Whichever node gets the request asks
// every owner once, itself included. There, part answers for the tenures that it is given, all open and none handed over before
// it returns. What the parts return goes through JSON, at the asking node too. In the end merge writes the answer:
//
//	mux.Handle("GET /accounts", router.Gather(web, router.GatherConfig{},
//		func(r *http.Request, ts []*owner.Tenure) ([]Account, error) { return ledger.above(r.FormValue("min"), ts) },
//		func(w http.ResponseWriter, r *http.Request, g *router.Gathered[[]Account]) {
//			if err := g.Err(); err != nil { // or answer with what there is, and say that it is not all
//				router.WriteError(w, r, err)
//				return
//			}
//			...
//		}))
//
// Each shard is asked for by its number and counted once, also if it moves meanwhile: a node that is not its owner says so and
// answers for the others, and the new owner is asked for it, at most Tries times in all. A node that fails, or does
// not answer within Timeout, is not asked again, and its shards are Missing.
//
// part must only read, as a question may be asked twice, and end when r.Context() does: with the loss of one of its tenures,
// with Timeout, or when the client goes away. It may not call Node.Do or Enter for a shard of its tenures, which could wait
// for part itself. Hand-offs wait for it, so it should be quick.
//
// What it is not: a snapshot. Each part is of its own moment, and a transfer between two shards may be seen half. Nor is it
// fenced: an owner that was paused while it answered, and replaced, answers with old state. Read in the guarded
// transaction where that matters.
//
// A request's body may have at most HTTPConfig.Replay bytes; each part has it whole. Between nodes answers travel on the same
// route, so the middleware in front of it runs at each, and clients must not pass for nodes (HTTPConfig.Peer) if they may not see
// what part returns. A node that asks and is not believed gets 403: the shards that it asked for are Missing.
func Gather[T any](
	h *HTTP, c GatherConfig,
	part func(r *http.Request, ts []*owner.Tenure) (T, error),
	merge func(w http.ResponseWriter, r *http.Request, g *Gathered[T]),
) http.Handler {
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	if c.MaxPart <= 0 {
		c.MaxPart = 8 << 20
	}
	raw := func(r *http.Request, ts []*owner.Tenure) (json.RawMessage, error) {
		v, err := part(r, ts)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(v)
		if err == nil && len(b) > c.MaxPart {
			err = fmt.Errorf("a part of %d bytes: want at most %d, GatherConfig.MaxPart", len(b), c.MaxPart)
		}
		return b, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Header.Get(hopHeader) != "" && r.Header.Get(shardsHeader) != ""
		r, from := receive(r, h.conf.Peer)
		if asked && !from.present() {
			// Taken for a client's question it would go to all nodes, which would do the same, and so on.
			h.conf.Logger.Warn("router: asked by one who is not believed to be a node: see HTTPConfig.Peer", "group", h.table.group.Name, "from", r.RemoteAddr)
			http.Error(w, "not believed to be a node", http.StatusForbidden)
			return
		}
		body, err := wholeBody(r, int64(h.conf.Replay))
		if err != nil {
			h.fail(w, r, err)
			return
		}
		q := question{h: h, conf: c, part: raw, body: body}
		if from.present() {
			q.answerPeer(w, r, from)
			return
		}
		found := q.ask(r)
		g := &Gathered[T]{Missing: found.missing}
		for _, a := range found.answers {
			p := Part[T]{Member: a.member, Shards: a.held}
			if err := json.Unmarshal(a.value, &p.Value); err != nil {
				g.Missing = append(g.Missing, Missing{shardsOf(a.held), &partError{a.member, err.Error()}})
				continue
			}
			g.Parts = append(g.Parts, p)
		}
		if err := g.Err(); err != nil && r.Context().Err() == nil {
			h.conf.Logger.Warn("router: question not answered by all", "group", h.table.group.Name, "err", err)
		}
		merge(w, r, g)
	})
}

// wholeBody takes all of r's body into memory, if it has at most limit bytes.
func wholeBody(r *http.Request, limit int64) (*body, error) {
	b, err := readBody(r, limit)
	if err != nil || !b.streams {
		return b, err
	}
	if b.buf, err = io.ReadAll(io.LimitReader(r.Body, limit+1)); err != nil {
		return nil, &bodyError{err}
	}
	if int64(len(b.buf)) > limit {
		return nil, &bodyError{&http.MaxBytesError{Limit: limit}}
	}
	b.streams = false
	return b, nil
}
