package grpcrouter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/internal/trip"
	"github.com/tenure-go/tenure/shard"
)

// Metadata between clients of this package and nodes. All names begin with ownPrefix and none outlives the hop.
const (
	ownPrefix = "tenure-"

	// tokenName is the one that is not: it goes between a client and a handler that has a fence.Gate.
	tokenName = "tenure-token"

	hopName   = "tenure-hop"                // request: the attempt's random number
	groupName = "tenure-group"              // request: the ID in the config of the sender's group
	epochName = "tenure-epoch"              // request: by which the sender believes the receiver owns; refusal: of the owner named
	admitName = "tenure-admit"              // request: send a header as soon as the stream is admitted
	agentName = "tenure-carried-user-agent" // request: of the client, for whom this is forwarded

	answeredName = "tenure-answered" // trailer of an error: the attempt's random number
	refusedName  = "tenure-refused"  // trailer of a refusal: the attempt's random number
	ownerName    = "tenure-owner-bin"
	addressName  = "tenure-owner-address-bin" // refusal: the owner's ID and address, which may be any text; absent if nobody is known
)

func isOwn(name string) bool { return strings.HasPrefix(name, ownPrefix) && name != tokenName }

// hop is what a peer says of the call that it sends on. Without a nonce it comes from a client.
type hop struct {
	nonce string
	group string // its ID: names repeat from one cluster to the next, and addresses are given again
	epoch shard.Epoch
	admit bool

	doubted bool // Config.Peer does not believe that it comes from a peer
}

func (h hop) present() bool { return h.nonce != "" }

// newHop marks an attempt. Handlers never see the nonce, so they can't refuse or answer in the router's name.
func newHop(at trip.Stop, admit bool) hop {
	return hop{nonce: fmt.Sprintf("%016x", rand.Uint64()), group: at.GroupID, epoch: at.Epoch, admit: admit}
}

// mark is ctx with md and the hop as outgoing metadata. md is not changed.
func (h hop) mark(ctx context.Context, md metadata.MD) context.Context {
	out := make(metadata.MD, len(md)+4)
	for name, values := range md {
		out[name] = values
	}
	out[hopName] = []string{h.nonce}
	out[groupName] = []string{h.group}
	out[epochName] = []string{h.epoch.Decimal()}
	if h.admit {
		out[admitName] = []string{"1"}
	}
	return metadata.NewOutgoingContext(ctx, out)
}

// refusal is the trailer of a refusal.
func (h hop) refusal(no *owner.NotOwnerError) metadata.MD {
	md := metadata.Pairs(refusedName, h.nonce)
	if no != nil && no.Owner.ID != "" {
		md.Set(ownerName, no.Owner.ID)
		md.Set(addressName, no.Owner.Address)
		md.Set(epochName, no.Epoch.Decimal())
	}
	return md
}

// refused reads such a trailer. The member has only ID and Address, or nothing.
func (h hop) refused(trailer metadata.MD) (who shard.Member, epoch shard.Epoch, refused bool) {
	if !h.signed(trailer, refusedName) {
		return shard.Member{}, 0, false
	}
	epoch, err := shard.ParseDecimal(first(trailer, epochName))
	if err != nil {
		return shard.Member{}, 0, true
	}
	return shard.Member{ID: first(trailer, ownerName), Address: first(trailer, addressName)}, epoch, true
}

// answered: what the call ended with is what the node's handler, or the node itself, has said.
func (h hop) answered(trailer metadata.MD) bool { return h.signed(trailer, answeredName) }

// signed: the nonce is among the values. What a handler has set under that name comes along and counts for nothing.
func (h hop) signed(md metadata.MD, name string) bool { return slices.Contains(md[name], h.nonce) }

func first(md metadata.MD, name string) string {
	if v := md[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// receive takes the metadata of this library off the call of ctx: what it says counts only if believed returns true.
func receive(ctx context.Context, believed func(context.Context) bool) (context.Context, hop) {
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	// Whoever asks for a header gets it: a sender that is not believed holds messages back all the same.
	h := hop{admit: first(md, admitName) != ""}
	nonce := first(md, hopName)
	h.doubted = nonce != "" && !believed(ctx)
	if nonce != "" && !h.doubted {
		h.nonce, h.group = nonce, first(md, groupName)
		// An unreadable epoch is 0: the receiver then answers from the view it has.
		h.epoch, _ = shard.ParseDecimal(first(md, epochName))
		if agent := md[agentName]; len(agent) > 0 {
			md["user-agent"] = agent
		}
	}
	if own(md) {
		ctx = metadata.NewIncomingContext(ctx, withoutOwn(md))
	}
	return context.WithValue(ctx, forwardedKey{}, h.present()), h
}

func own(md metadata.MD) bool {
	for name := range md {
		if isOwn(name) {
			return true
		}
	}
	return false
}

// withoutOwn takes them off md itself.
func withoutOwn(md metadata.MD) metadata.MD {
	for name := range md {
		if isOwn(name) {
			delete(md, name)
		}
	}
	return md
}

// onward is the metadata of a client's call for its second hop. gRPC makes its own of what describes one connection.
func onward(ctx context.Context) metadata.MD {
	md, _ := metadata.FromIncomingContext(ctx)
	out := make(metadata.MD, len(md)+2)
	for name, values := range md {
		switch {
		case name == "user-agent":
			out[agentName] = values
		case name == "content-type", strings.HasPrefix(name, ":"), strings.HasPrefix(name, "grpc-") && !strings.HasSuffix(name, "-bin"), isOwn(name):
		default:
			out[name] = values
		}
	}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		host, _, err := net.SplitHostPort(p.Addr.String())
		if err != nil {
			host = p.Addr.String()
		}
		out["x-forwarded-for"] = append(out["x-forwarded-for"][:len(out["x-forwarded-for"]):len(out["x-forwarded-for"])], host)
	}
	return out
}

// backward is what of an owner's header or trailer a client may see.
func backward(md metadata.MD) metadata.MD {
	delete(md, "content-type")
	delete(md, "grpc-status-details-bin") // comes with the status
	return withoutOwn(md)
}

type forwardedKey struct{}

// Forwarded reports whether the call came here from a node that forwards it, or from a Client, so that rate limits and
// access logs count once. Only behind Options: Config.Peer has confirmed it, and elsewhere it is false.
func Forwarded(ctx context.Context) bool {
	f, _ := ctx.Value(forwardedKey{}).(bool)
	return f
}
