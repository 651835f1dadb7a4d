package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// Headers between nodes. All begin with ownPrefix and none outlives the hop.
const (
	ownPrefix = "Tenure-"

	// tokenHeader is the one that is not: fence.SetHeader's, between a client and a handler that has a
	// fence.Gate.
	tokenHeader = "Tenure-Token"

	hopHeader   = "Tenure-Hop"     // request: the attempt's random number
	groupHeader = "Tenure-Group"   // request: the ID in the config of the sender's group
	doubtHeader = "Tenure-Doubted" // request: a node that did not believe the hop before has sent it on
	epochHeader = "Tenure-Epoch"   // request: by which the sender believes the receiver owns; refusal: of the owner named

	shardsHeader = "Tenure-Shards" // request of Gather: a set of shards
	partHeader   = "Tenure-Part"   // answer to such: the attempt's random number

	refusedHeader = "Tenure-Refused"       // refusal: the attempt's random number
	ownerHeader   = "Tenure-Owner"         // refusal: the owner's ID, absent if nobody is known
	addressHeader = "Tenure-Owner-Address" // refusal: its address
)

// carried travel under ownPrefix + "Carried-" + name: by these headers http.Transport decides
// that a request may be sent twice.
var carried = [...]string{"Idempotency-Key", "X-Idempotency-Key"}

// hop is what a peer says of the request that it sends on. Without a nonce it comes from a client.
type hop struct {
	nonce string
	group string // its ID: names repeat from one cluster to the next, and addresses are given again
	epoch shard.Epoch

	shards string // a set of them; "" unless Gather asks

	// doubted: it says that it comes from a peer, and is not believed, so it is a client's. Nodes that are set up not to
	// believe each other would pass such a request round for ever, so it says so when it is sent on, and is not sent on twice.
	doubted bool
	twice   bool // doubted, and it was before
}

func (h hop) present() bool { return h.nonce != "" }

// newNonce is unknown to handlers, so they can't refuse in the router's name.
func newNonce() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// receive takes the headers of this library off r: r itself if it has none, else a copy. What they say
// counts only if peer is true.
func receive(r *http.Request, peer func(*http.Request) bool) (*http.Request, hop) {
	own := false
	for name := range r.Header {
		if isOwn(name) {
			own = true
			break
		}
	}
	if !own {
		return r, hop{}
	}
	var h hop
	nonce := r.Header.Get(hopHeader)
	switch {
	case nonce == "":
	case !peer(r):
		h = hop{doubted: true, twice: r.Header.Get(doubtHeader) != ""}
	default:
		h = hop{nonce: nonce, group: r.Header.Get(groupHeader), shards: r.Header.Get(shardsHeader)}
		// An unreadable epoch is 0: the receiver then answers from the view it has.
		h.epoch, _ = shard.ParseEpoch(r.Header.Get(epochHeader))
	}
	clean := *r
	clean.Header = r.Header.Clone()
	removeOwn(clean.Header)
	if h.present() {
		for _, name := range carried {
			if v := r.Header.Values(carryName(name)); len(v) > 0 {
				clean.Header[name] = v
			}
		}
	}
	return clean.WithContext(context.WithValue(r.Context(), forwardedKey{}, h.present())), h
}

func carryName(name string) string { return ownPrefix + "Carried-" + name }

// carry moves the headers that would make the transport replay a request.
func carry(h http.Header) {
	for _, name := range carried {
		if v, ok := h[name]; ok {
			h[carryName(name)] = v
			delete(h, name)
		}
	}
}

func isOwn(name string) bool { return strings.HasPrefix(name, ownPrefix) && name != tokenHeader }

func removeOwn(h http.Header) {
	for name := range h {
		if isOwn(name) {
			delete(h, name)
		}
	}
}

// set marks an attempt.
func (h hop) set(to http.Header) {
	to.Set(hopHeader, h.nonce)
	to.Set(groupHeader, h.group)
	to.Set(epochHeader, h.epoch.String())
	if h.shards != "" {
		to.Set(shardsHeader, h.shards)
	}
	if h.doubted {
		to.Set(doubtHeader, "true")
	}
}

// refuse answers a peer that this node does not own the shard, and who does as far as it knows.
func (h hop) refuse(w http.ResponseWriter, no *owner.NotOwnerError) {
	to := w.Header()
	to.Set(refusedHeader, h.nonce)
	if no != nil && no.Owner.ID != "" {
		to.Set(ownerHeader, no.Owner.ID)
		to.Set(addressHeader, no.Owner.Address)
		to.Set(epochHeader, no.Epoch.String())
	}
	http.Error(w, "not the owner", http.StatusMisdirectedRequest)
}

// refusal reads such an answer: false if res is anything else. The member has only what the headers
// hold, ID and Address.
func (h hop) refusal(res *http.Response) (who shard.Member, epoch shard.Epoch, refused bool) {
	if res.StatusCode != http.StatusMisdirectedRequest || res.Header.Get(refusedHeader) != h.nonce {
		return shard.Member{}, 0, false
	}
	epoch, err := shard.ParseEpoch(res.Header.Get(epochHeader))
	id := res.Header.Get(ownerHeader)
	if err != nil || id == "" {
		return shard.Member{}, 0, true
	}
	return shard.Member{ID: id, Address: res.Header.Get(addressHeader)}, epoch, true
}

type forwardedKey struct{}

// Forwarded reports whether r is on its second hop, so that rate limits and access logs count
// once. Behind Route and Handler it is what HTTPConfig.Peer has confirmed; in middleware around them
// it is only what the sender says.
func Forwarded(r *http.Request) bool {
	if f, ok := r.Context().Value(forwardedKey{}).(bool); ok {
		return f
	}
	return r.Header.Get(hopHeader) != ""
}
