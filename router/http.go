package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// HTTPConfig configures an HTTP. The zero value serves plain HTTP among peers that trust each other.
type HTTPConfig struct {
	// Transport carries requests to peers. Defaults to NewTransport(). One of your own must not
	// send a request again by itself, and an *http.Transport must have an ExpectContinueTimeout above
	// WaitTimeout; start from NewTransport.
	Transport http.RoundTripper

	// Scheme of requests to peers: "http" or "https". Defaults to "http".
	Scheme string

	// Target is a member's host:port for peers. Defaults to Member.Address. Of a member that
	// the table does not show yet, only ID and Address may be known.
	Target func(shard.Member) string

	// Peer reports whether the sender of r is a node: check its certificate, say. r is as it came. Defaults
	// to believing who says so. Set it where clients reach nodes directly. A client that passes for a
	// node gets 421 where others are forwarded; and by naming an epoch to come it can have each of its
	// requests wait for WaitTimeout in one of the shard's MaxWaiting places, and it can set headers (the
	// Idempotency-Key) that something in front of the nodes has removed.
	Peer func(r *http.Request) bool

	// Error answers requests that failed here, among them *KeyError, *ForwardError and
	// *owner.NotOwnerError. Defaults to WriteError.
	Error func(http.ResponseWriter, *http.Request, error)

	// Tries is how often a request is sent, the first time included. Defaults to 4.
	Tries int

	// Replay is up to how many bytes of body are held in memory for the next try. Defaults to 64 KiB. Longer
	// bodies go by "Expect: 100-continue" and are not sent until the owner admits the request.
	Replay int

	// Logger hears of requests that could not be brought to their owner. Defaults to silence.
	Logger *slog.Logger
}

// HTTP serves the keys owned here and forwards the rest: see the package's documentation for what is
// tried again and what is not, and for the answers that it gives itself. Safe for concurrent use. The
// zero value is invalid; see NewHTTP.
//
// One route is of one group. The handlers of two HTTPs, one inside the other, don't work: the request that the
// outer one has forwarded is on its only hop, and unless the same node happens to own both keys the inner
// one refuses it. Let the inner work be a request of its own.
//
// Upgraded connections (WebSockets) that it relays are closed by Serve at its end. On a server that you run
// yourself they go on after its Shutdown until one side closes, as net/http has it.
type HTTP struct {
	table *Table
	node  node // nil in a gateway
	conf  HTTPConfig
	wait  time.Duration // for an owner to be known
	self  string        // the node's ID, "" in a gateway
	pool  buffers

	errorLog *log.Logger // of the proxy's own remarks
}

// node is what HTTP needs of an *owner.Node.
type node interface {
	Enter(ctx context.Context, key string) (context.Context, func(), error)
	EnterShard(ctx context.Context, shard int) (context.Context, func(), error)
	Group() shard.Group
	WaitTimeout() time.Duration
	Status() owner.Status
}

// gatewayWait is how long a gateway waits for an owner to be known: a node's default WaitTimeout.
const gatewayWait = 5 * time.Second

// NewHTTP returns an HTTP that finds owners in t. n is nil in a gateway, which owns nothing; else it is a
// node of t's group. All faults of c are reported together.
func NewHTTP(t *Table, n *owner.Node, c HTTPConfig) (*HTTP, error) {
	if n == nil {
		return newHTTP(t, nil, c)
	}
	return newHTTP(t, n, c)
}

func newHTTP(t *Table, n node, c HTTPConfig) (*HTTP, error) {
	if t == nil {
		return nil, &setupError{errors.New("router: NewHTTP needs a table: see Open")}
	}
	wait, self := gatewayWait, ""
	if n != nil {
		self = n.Status().Self.ID
		wait = n.WaitTimeout()
		if n.Status().Self.Address == "" && c.Target == nil {
			return nil, &setupError{errors.New("router: the node has no address, so peers could forward nothing to it: set owner.Config.Address, or HTTPConfig.Target to what stands for it")}
		}
		if got := n.Group().WithDefaults(); got != t.group {
			return nil, &setupError{fmt.Errorf("router: the node is of group %v and the table of %v: give both the same declaration", got, t.group)}
		}
	}
	c, err := c.valid(wait)
	if err != nil {
		return nil, &setupError{err}
	}
	return &HTTP{
		table:    t,
		node:     n,
		conf:     c,
		wait:     wait,
		self:     self,
		errorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}, nil
}

// valid returns c with defaults in, or all its faults.
func (c HTTPConfig) valid(wait time.Duration) (HTTPConfig, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("router: HTTPConfig."+format, args...))
	}
	if c.Transport == nil {
		t := NewTransport()
		t.ExpectContinueTimeout = max(t.ExpectContinueTimeout, 2*wait)
		c.Transport = t
	}
	if t, ok := c.Transport.(*http.Transport); ok {
		if t.ExpectContinueTimeout <= wait {
			fault("Transport has ExpectContinueTimeout %v: want more than WaitTimeout, %v, or long bodies are "+
				"sent before they are admitted", t.ExpectContinueTimeout, wait)
		}
		if t.ResponseHeaderTimeout != 0 && t.ResponseHeaderTimeout <= wait {
			fault("Transport has ResponseHeaderTimeout %v: want 0, or more than WaitTimeout, %v, or requests that wait "+
				"for a hand-off end as uncertain", t.ResponseHeaderTimeout, wait)
		}
	}
	switch c.Scheme {
	case "":
		c.Scheme = "http"
	case "http", "https":
	default:
		fault("Scheme is %q: want http or https", c.Scheme)
	}
	if c.Tries < 0 {
		fault("Tries is %d: want 1 or more, or 0 for the default", c.Tries)
	} else if c.Tries == 0 {
		c.Tries = 4
	}
	if c.Replay < 0 {
		fault("Replay is %d: want a number of bytes, or 0 for the default", c.Replay)
	} else if c.Replay == 0 {
		c.Replay = 64 << 10
	}
	if c.Target == nil {
		c.Target = func(m shard.Member) string { return m.Address }
	}
	if c.Peer == nil {
		c.Peer = func(*http.Request) bool { return true }
	}
	if c.Error == nil {
		c.Error = WriteError
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(faults...)
}

// Route wraps a handler that runs only at the owner of the request's key, inside t. r.Context() ends
// with t's loss, and when the client goes away.
func (h *HTTP) Route(key KeyFunc, fn func(w http.ResponseWriter, r *http.Request, t *owner.Tenure)) http.Handler {
	return h.Handler(key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := owner.From(r.Context())
		if err != nil {
			h.fail(w, r, err)
			return
		}
		fn(w, r, t)
	}))
}

// Handler is Route for ready-made handlers and middleware; owner.From(r.Context()) has the tenure.
func (h *HTTP) Handler(key KeyFunc, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, from := receive(r, h.conf.Peer)
		k, err := key(r)
		if err == nil && k == "" {
			err = errors.New("the request's key is empty")
		}
		if err != nil {
			h.fail(w, r, &KeyError{Err: err})
			return
		}
		if from.present() {
			h.answerPeer(w, r, k, from, next)
		} else {
			h.answerClient(w, r, k, from, next)
		}
	})
}

// answerPeer serves a request on its second hop, or refuses it: there is no third.
func (h *HTTP) answerPeer(w http.ResponseWriter, r *http.Request, key string, from hop, next http.Handler) {
	ctx := r.Context()
	if h.node == nil || from.group == "" || from.group != h.table.awaitID(ctx, h.wait) {
		from.refuse(w, nil)
		return
	}
	if from.epoch != 0 {
		ctx = owner.AtLeast(ctx, from.epoch)
	}
	err := h.here(ctx, w, r, key, next)
	if no, ok := errors.AsType[*owner.NotOwnerError](err); ok {
		from.refuse(w, no)
	} else if err != nil {
		h.fail(w, r, err)
	}
}

// answerClient serves a request on its first hop: here if this node owns the key, else at the owner. What was doubted twice
// is not sent on.
func (h *HTTP) answerClient(w http.ResponseWriter, r *http.Request, key string, from hop, next http.Handler) {
	var t *trip
	ctx := r.Context()
	for {
		var no *owner.NotOwnerError
		if h.node != nil {
			err := h.here(ctx, w, r, key, next)
			if err == nil {
				return
			}
			var ok bool
			if no, ok = errors.AsType[*owner.NotOwnerError](err); !ok {
				h.fail(w, r, err)
				return
			}
		}
		if from.twice {
			h.conf.Logger.Warn("router: not forwarded: two nodes in turn did not believe that the request comes from a node: see HTTPConfig.Peer",
				"group", h.table.group.Name, "from", r.RemoteAddr)
			h.fail(w, r, cmp.Or(no, &owner.NotOwnerError{Shard: h.table.group.Of(key)}))
			return
		}
		if t == nil {
			var err error
			if t, err = h.newTrip(r, key, from.doubted); err != nil {
				h.fail(w, r, err)
				return
			}
		}
		if no != nil {
			t.notHere(no)
		}
		err := t.relay(w, r)
		if !errors.Is(err, errHere) {
			if err != nil {
				h.fail(w, r, err)
			}
			return
		}
		r, ctx = t.turnBack(r)
	}
}

// here runs next in key's tenure. An error: next did not run, and nothing was answered.
func (h *HTTP) here(ctx context.Context, w http.ResponseWriter, r *http.Request, key string, next http.Handler) error {
	ctx, exit, err := h.node.Enter(ctx, key)
	if err != nil {
		return err
	}
	defer exit()
	next.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

func (h *HTTP) fail(w http.ResponseWriter, r *http.Request, err error) {
	if _, ok := errors.AsType[*KeyError](err); !ok && r.Context().Err() == nil {
		h.conf.Logger.Warn("router: request failed", "group", h.table.group.Name, "method", r.Method, "err", err)
	}
	h.conf.Error(w, r, err)
}
