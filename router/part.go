package router

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// wirePart is how a node answers for the shards that it was asked for, in JSON.
type wirePart struct {
	Held    []ShardEpoch    `json:"held,omitempty"`
	Refused []wireRefusal   `json:"refused,omitempty"`
	Busy    string          `json:"busy,omitempty"`   // why those that are in neither were not to be entered
	Failed  string          `json:"failed,omitempty"` // why there is no value
	Value   json.RawMessage `json:"value,omitempty"`
}

// wireRefusal is a shard that the node does not own.
type wireRefusal struct {
	Shard   int         `json:"shard"`
	Owner   string      `json:"owner,omitempty"` // who does as far as it knows
	Address string      `json:"address,omitempty"`
	Epoch   shard.Epoch `json:"epoch,omitempty"`
}

// bytesPerShard is what a wirePart may need for one shard, and for the rest.
const bytesPerShard = 1 << 10

// answerPeer answers a node that has asked for some shards.
func (q *question) answerPeer(w http.ResponseWriter, r *http.Request, from hop) {
	h := q.h
	shards, err := decodeShards(from.shards, h.table.group.Shards)
	if err != nil || h.node == nil || from.group == "" || from.group != h.table.awaitID(r.Context(), h.wait) {
		from.refuse(w, nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), q.conf.Timeout)
	defer cancel()
	p := q.answer(r.WithContext(ctx), shards, from.epoch)
	w.Header().Set(partHeader, from.nonce)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(p) // what fails is the connection
}

// answer runs part in the tenures of shards, as many of them as are open here.
func (q *question) answer(r *http.Request, shards []int, atLeast shard.Epoch) wirePart {
	var p wirePart
	wait, cancel := context.WithTimeout(r.Context(), q.h.wait)
	defer cancel()
	if atLeast != 0 {
		wait = owner.AtLeast(wait, atLeast)
	}
	// Wait for what is on its way before holding anything: what is held can't be handed over.
	for _, s := range shards {
		if _, exit, err := q.h.node.EnterShard(wait, s); err == nil {
			exit()
		}
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	var tenures []*owner.Tenure
	for _, s := range shards {
		in, exit, err := q.h.node.EnterShard(wait, s)
		if err != nil {
			p.refuse(s, err)
			continue
		}
		defer exit()
		t, err := owner.From(in)
		if err != nil {
			p.refuse(s, err)
			continue
		}
		defer context.AfterFunc(t.Context(), func() { end(context.Cause(t.Context())) })()
		tenures = append(tenures, t)
		p.Held = append(p.Held, ShardEpoch{s, t.Token().Epoch})
	}
	if len(tenures) == 0 {
		return p
	}
	r = r.WithContext(ctx)
	r.Body = q.body.reader(r)
	value, err := q.guarded(r, tenures)
	if err == nil {
		err = context.Cause(ctx)
	}
	for _, t := range tenures {
		if err == nil {
			err = t.Err() // it was lost, by the clock even: who knows what part has seen
		}
	}
	if err != nil {
		p.Failed = err.Error()
	} else {
		p.Value = value
	}
	return p
}

// guarded is part, of which a panic is an error: it may run in a goroutine that net/http does not watch.
func (q *question) guarded(r *http.Request, ts []*owner.Tenure) (value json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			q.h.conf.Logger.Error("router: part panicked", "group", q.h.table.group.Name, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("part panicked; its log has where")
		}
	}()
	return q.part(r, ts)
}

func (p *wirePart) refuse(s int, err error) {
	no, ok := errors.AsType[*owner.NotOwnerError](err)
	if !ok {
		p.Busy = err.Error()
		return
	}
	p.Refused = append(p.Refused, wireRefusal{s, no.Owner.ID, no.Owner.Address, no.Epoch})
}

// encodeShards writes a set of shards in at most 11 KiB, so that it fits into a header however many there are.
func encodeShards(of []ShardEpoch) string {
	last := 0
	for _, s := range of {
		last = max(last, s.Shard)
	}
	set := make([]byte, last/8+1)
	for _, s := range of {
		set[s.Shard/8] |= 1 << (s.Shard % 8)
	}
	return base64.RawURLEncoding.EncodeToString(set)
}

// decodeShards reads such a set, which must not be empty nor have a shard from n on.
func decodeShards(text string, n int) ([]int, error) {
	set, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var shards []int
	for i, b := range set {
		for bit := range 8 {
			if b&(1<<bit) != 0 {
				shards = append(shards, i*8+bit)
			}
		}
	}
	if len(shards) == 0 || shards[len(shards)-1] >= n {
		return nil, errors.New("router: no such shards")
	}
	return shards, nil
}
