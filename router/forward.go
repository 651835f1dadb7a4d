package router

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// errHere: the owner is this node by now.
var errHere = errors.New("router: owned here")

// errRefused: a node said that it is not the owner.
var errRefused = errors.New("router: refused, it does not own the shard")

// errNoAddress: the owner can't be reached by anybody.
var errNoAddress = errors.New("router: it has no address: set owner.Config.Address")

// trip is one request on its way from here to the owner of its key. One goroutine uses it.
type trip struct {
	h        *HTTP
	shard    int
	doubted  bool // see hop
	body     *body
	deadline time.Time // for somebody to be known as owner
	tries    int

	learned *layout.Owned // what nodes said, if newer than what they were asked by
	not     belief        // refuted, with all that is older
	home    belief        // that this node is the owner itself, to be looked into; zero: none
	err     error         // of the last attempt
}

// belief is that the node at target owns the shard by epoch.
type belief struct {
	epoch  shard.Epoch
	target string
}

// newTrip takes r's body if it is short. On error nothing was sent.
func (h *HTTP) newTrip(r *http.Request, key string, doubted bool) (*trip, error) {
	b, err := readBody(r, int64(h.conf.Replay))
	if err != nil {
		return nil, err
	}
	return &trip{
		h:        h,
		shard:    h.table.group.Of(key),
		doubted:  doubted,
		body:     b,
		deadline: time.Now().Add(h.wait),
	}, nil
}

// notHere takes note that this node refused.
func (t *trip) notHere(no *owner.NotOwnerError) {
	if t.home != (belief{}) {
		t.refute(t.home)
		t.home = belief{}
	}
	if no.Owner.ID != "" {
		t.learn(&no.Owner, no.Epoch)
	}
}

// turnBack is r for another look at this node's own gate, which first waits for the view that the table has.
func (t *trip) turnBack(r *http.Request) (*http.Request, context.Context) {
	again := *r
	again.Body = t.body.reader(r)
	return &again, owner.AtLeast(r.Context(), t.home.epoch)
}

// RoundTrip brings out to the owner. It returns its answer, or errHere, or a *ForwardError or
// *owner.NotOwnerError.
func (t *trip) RoundTrip(out *http.Request) (*http.Response, error) {
	for {
		o, err := t.next(out.Context())
		if err != nil {
			return nil, err
		}
		if t.tries == t.h.conf.Tries {
			return nil, t.err
		}
		t.tries++
		if t.h.node != nil && o.Member.ID == t.h.self {
			t.home = t.belief(o)
			t.err = &owner.NotOwnerError{Shard: t.shard}
			return nil, errHere
		}
		res, again, err := t.attempt(out, o)
		if err == nil {
			return res, nil
		}
		t.err = err
		if !again {
			return nil, err
		}
		// The first refusal says where to go, so there is nothing to wait for.
		if !errors.Is(err, errRefused) || t.tries > 1 {
			if err := t.rest(out.Context()); err != nil {
				return nil, err
			}
		}
	}
}

// next is who is believed to own the shard. It waits for the table to show somebody, until the deadline.
func (t *trip) next(ctx context.Context) (*layout.Owned, error) {
	if o := t.pick(); o != nil {
		return o, nil
	}
	timeout := time.NewTimer(time.Until(t.deadline))
	defer timeout.Stop()
	for {
		turned := t.h.table.turns.on(t.shard)
		if o := t.pick(); o != nil {
			return o, nil
		}
		select {
		case <-turned:
		case <-timeout.C:
			if t.err != nil {
				return nil, t.err
			}
			return nil, &owner.NotOwnerError{Shard: t.shard}
		case <-ctx.Done():
			return nil, t.unsent(ctx)
		}
	}
}

const firstRest = 50 * time.Millisecond // then doubled

// rest waits some time before the next attempt, less if the shard changes hands.
func (t *trip) rest(ctx context.Context) error {
	timer := time.NewTimer(jitter(firstRest << min(t.tries-1, 6)))
	defer timer.Stop()
	select {
	case <-t.h.table.turns.on(t.shard):
	case <-timer.C:
	case <-ctx.Done():
		return t.unsent(ctx)
	}
	return nil
}

// jitter is between half of d and one and a half, so that those refused together don't come back together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

func (t *trip) unsent(ctx context.Context) error {
	return &ForwardError{Shard: t.shard, Err: context.Cause(ctx)}
}

// pick is the newest that is known and not refuted, or nil. While the table can't tell which group of that
// name it follows, nobody is: a node that this one's gate has named might refuse what has no group.
func (t *trip) pick() *layout.Owned {
	if t.h.table.id() == "" {
		return nil
	}
	first, second := t.h.table.board.Owner(t.shard), t.learned
	if first == nil || second != nil && second.Epoch > first.Epoch {
		first, second = second, first
	}
	for _, o := range []*layout.Owned{first, second} {
		if o != nil && !t.refuted(o) && !t.halfKnown(o) {
			return o
		}
	}
	return nil
}

// halfKnown: a node has named o, of which it can only say ID and Address, and that is not enough to reach it. The table will
// soon show all of it: wait for that.
func (t *trip) halfKnown(o *layout.Owned) bool {
	return o == t.learned && t.h.conf.Target(*o.Member) == ""
}

func (t *trip) learn(m *shard.Member, e shard.Epoch) {
	if t.learned == nil || e >= t.learned.Epoch {
		t.learned = &layout.Owned{Member: m, Epoch: e}
	}
}

func (t *trip) belief(o *layout.Owned) belief {
	return belief{epoch: o.Epoch, target: t.h.conf.Target(*o.Member)}
}

func (t *trip) refute(b belief) {
	if b.epoch >= t.not.epoch {
		t.not = b
	}
}

// refuted: by the same epoch, only another address is worth a try: the member's record may have changed.
func (t *trip) refuted(o *layout.Owned) bool {
	return o.Epoch < t.not.epoch || t.belief(o) == t.not
}

// attempt sends out to o once. With an error, again says whether another attempt may be made: this one was
// certainly not admitted, and the body is still whole.
func (t *trip) attempt(out *http.Request, o *layout.Owned) (res *http.Response, again bool, err error) {
	target := t.h.conf.Target(*o.Member)
	failed := &ForwardError{Shard: t.shard, Owner: *o.Member, Epoch: o.Epoch}
	if target == "" {
		failed.Err = errNoAddress
		return nil, false, failed
	}
	var wire connection
	req := out.WithContext(httptrace.WithClientTrace(out.Context(), wire.trace()))
	url := *out.URL
	url.Host = target
	req.URL = &url
	// The client's version decides nothing here, but the transport would not wait for 100-continue.
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	req.Header = out.Header.Clone()
	mark := hop{nonce: newNonce(), group: t.h.table.id(), epoch: o.Epoch, doubted: t.doubted}
	mark.set(req.Header)
	t.body.attach(req)

	res, err = t.h.conf.Transport.RoundTrip(req)
	if err != nil {
		failed.Sent, failed.Err = !wire.never(err), err
		return nil, !failed.Sent && t.body.reclaim(), failed
	}
	who, epoch, refused := mark.refusal(res)
	if !refused {
		return res, false, nil
	}
	t.refute(t.belief(o))
	if who.ID != "" {
		t.learn(&who, epoch)
	}
	// Read to its end, the connection serves the next request.
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	_ = res.Body.Close()
	failed.Err = errRefused
	return nil, t.body.reclaim(), failed
}

// connection notes whether an attempt ever had a connection.
type connection struct{ asked, got atomic.Bool }

func (c *connection) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { c.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Store(true) },
	}
}

// never reports that an attempt that ended with err certainly sent nothing: a transport that
// can be traced got no connection, which includes failed TLS handshakes, or any other failed to dial.
func (c *connection) never(err error) bool {
	if c.got.Load() {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return c.asked.Load() || ok && op.Op == "dial"
}
