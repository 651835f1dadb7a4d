package idem

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// HTTPConfig configures HTTP. Scope is required.
type HTTPConfig struct {
	// Scope is whose key it is: the authenticated tenant or user, never something that the client
	// makes up. An error is answered with 403; Logger is told of it, the client is not.
	Scope func(*http.Request) (string, error)

	// Need says which requests need a key. Defaults to NeedByMethod.
	Need func(*http.Request) Need

	// Token is the owner's under which the request runs: owner.TokenFrom, where the handler is one of
	// a router's Route. Defaults to none.
	Token func(context.Context) shard.Token

	// Keep says by status which answers end the operation and are replayed. Others let go of it, so that the
	// next try runs the handler again, unless the handler has called Op.Decide. Defaults to KeepByStatus.
	Keep func(status int) bool

	// Headers are the names of answer headers that are kept and replayed, byte for byte. Set-Cookie
	// never is, here or not. Defaults to ReplayedHeaders().
	Headers []string

	// Wait is how long a request waits for another with its key that is in progress, before it is
	// answered with 409. Defaults to 0: not at all.
	Wait time.Duration

	// MaxBody is the largest request body, in bytes; a larger one is answered with 413. Bodies are
	// read whole before the handler runs, above 1 MiB into a temporary file. Defaults to 32 MiB.
	MaxBody int64

	// Interrupted is Request.Interrupted; Reconcile's function returns an Answer. Defaults to Retry.
	Interrupted Policy

	// Logger is told of Scope's errors, and of answers that were sent and could not be recorded. Defaults to silence.
	Logger *slog.Logger
}

// Need is whether a request needs a key.
type Need int

const (
	Required Need = iota // without a key it is answered with 400
	Optional             // without a key it is passed on, and may be executed again
	Ignored              // it is passed on, whether or not it has a key
)

// NeedByMethod requires a key for POST and PATCH, takes one for PUT and DELETE, and ignores it for the
// rest, which by HTTP have no effect.
func NeedByMethod(r *http.Request) Need {
	switch r.Method {
	case http.MethodPost, http.MethodPatch:
		return Required
	case http.MethodPut, http.MethodDelete:
		return Optional
	}
	return Ignored
}

// KeepByStatus keeps 200 to 499 but for those that speak of the moment or the place and not of the operation: 408,
// 421, 425 and 429.
func KeepByStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 200 && status < 500
}

// ReplayedHeaders are the headers that are replayed unless HTTPConfig.Headers says otherwise, those that describe the body, and where things
// are: Allow, Cache-Control, Content-Disposition, Content-Encoding, Content-Language, Content-Location, Content-Type, ETag, Expires,
// Last-Modified, Link, Location and Vary.
func ReplayedHeaders() []string {
	return []string{
		"Allow", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location",
		"Content-Type", "Etag", "Expires", "Last-Modified", "Link", "Location", "Vary",
	}
}

// Answer is what is kept of a handler's answer.
type Answer struct {
	Status int                 `json:"status"`
	Header map[string][][]byte `json:"header,omitempty"` // the values' bytes need not be UTF-8
	Body   []byte              `json:"body,omitempty"`
}

// Replayed marks answers that were given before: "Idempotent-Replayed: true".
const Replayed = "Idempotent-Replayed"

// HTTP gives a request's first answer to later ones with its Idempotency-Key. It runs the handler again if it is not known how an earlier
// try ended (a crash, a 5xx): what the handler writes has to be a Step, a sqlidem.StepTx, or unique in the database by Op.Key. The rest is as
// draft-ietf-httpapi-idempotency-key-header-07 has it. The key is one header: a string of a structured
// field, or the bare token, which mean the same. What else belongs to a request is in its fingerprint: method,
// path, query, content type and body.
//
//	situation                                     status  problem type ends in
//	no key, more than one, or not a valid one     400     #key-missing, #key-invalid
//	Scope has refused                             403     #scope
//	another request with the key is in progress   409     #in-progress, with Retry-After
//	an earlier one was interrupted, under Block   409     #interrupted
//	the answer is no longer kept                  410     #expired
//	done, but the answer was never kept           410     #not-kept
//	body above MaxBody                            413     #body
//	the key was used for another request          422     #mismatch
//	the store can't be asked, or a later owner    503     #unavailable, with Retry-After
//
// Those answers are application/problem+json (RFC 9457); README.md, beside this package, tells clients what to do about each. A replayed answer has the same status, body and
// kept headers, and Idempotent-Replayed: true. Trailers are not replayed.
//
// Config.MaxResult limits what is kept of an answer: as JSON, in which a body is a third longer than it is.
//
// An answer is sent once it has been recorded. One that the handler flushes is sent as it comes, and recorded
// at the end; one that grows beyond Config.MaxResult likewise, and one of a hijacked connection: those two
// are not kept, and later requests get 410. If the handler panics the operation counts as interrupted.
//
// It works under a router's Route, where a new owner of the shard takes over at once (see Token), and over
// it, at the edge; not both for one request. Over it, a request that another node's router has sent on is
// passed on as it is, because the node in front has seen to it: a client that makes up the router's header
// Tenure-Hop does without idempotency, so strip it where clients are not trusted. A middleware that changes what a handler reads belongs
// outside of it, one that authenticates as well, since Scope needs that.
//
// The handler finds its operation with From, for Step, Key and Decide. A config without Scope answers
// every request with 500.
func HTTP(e *Engine, c HTTPConfig) func(http.Handler) http.Handler {
	if c.Need == nil {
		c.Need = NeedByMethod
	}
	if c.Keep == nil {
		c.Keep = KeepByStatus
	}
	if c.Headers == nil {
		c.Headers = ReplayedHeaders()
	}
	names := make([]string, 0, len(c.Headers))
	for _, name := range c.Headers {
		if name = http.CanonicalHeaderKey(name); name != "Set-Cookie" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	c.Headers = slices.Compact(names)
	if c.MaxBody == 0 {
		c.MaxBody = 32 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return func(h http.Handler) http.Handler {
		return &httpHandler{e: e, c: c, h: h}
	}
}

// hopHeader is what package router marks requests with that it sends on to another node. Under its Route
// it has been removed.
const hopHeader = "Tenure-Hop"

type httpHandler struct {
	e *Engine
	c HTTPConfig
	h http.Handler
}

func (m *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	need := m.c.Need(r)
	if need == Ignored || r.Header[hopHeader] != nil {
		m.h.ServeHTTP(w, r)
		return
	}
	key, err := keyOf(r.Header)
	if errors.Is(err, errNoKey) && need == Optional {
		m.h.ServeHTTP(w, r)
		return
	}
	if err != nil {
		reply(w, problemOf(err))
		return
	}
	if m.c.Scope == nil || m.e == nil {
		reply(w, problem{status: http.StatusInternalServerError, name: "config", detail: "idem.HTTP has no engine or no Scope"})
		return
	}
	q := Request{Key: key, Wait: m.c.Wait, Interrupted: m.c.Interrupted}
	if q.Scope, err = m.c.Scope(r); err != nil {
		m.c.Logger.WarnContext(r.Context(), "idem: Scope has refused a request", "method", r.Method, "path", r.URL.Path, "error", err)
		reply(w, problem{status: http.StatusForbidden, name: "scope", detail: "the caller could not be identified, so its Idempotency-Key could not be looked up"})
		return
	}
	body, err := spool(r, m.c.MaxBody)
	if err != nil {
		reply(w, problemOfBody(err))
		return
	}
	defer body.remove()
	q.Fingerprint = body.fingerprint(r)
	if m.c.Token != nil {
		q.Token = m.c.Token(r.Context())
	}
	m.serve(w, r, q)
}

// serve runs the handler, or replays.
func (m *httpHandler) serve(w http.ResponseWriter, r *http.Request, q Request) {
	var c *capture
	res, err := m.e.do(r.Context(), q, func(ctx context.Context, op *Op) (any, error) {
		c = newCapture(w, m.e.c.MaxResult)
		m.h.ServeHTTP(c.writer(), r.WithContext(ctx))
		return m.outcome(c, op)
	})
	unkept, letGo := err.(*unkeptError)
	_, unfinished := errors.AsType[*FinishError](err)
	switch {
	case err == nil && res.replayed:
		m.replay(w, res.body, c)
	case err == nil, letGo && c == unkept.c:
		c.send()
	case unfinished && c != nil:
		// The operation is done. To say otherwise would only lead to a second one.
		m.c.Logger.WarnContext(r.Context(), "idem: an answer was sent that may not have been recorded", "scope", q.Scope, "key", q.Key, "error", err)
		c.send()
	case c != nil && c.live:
		panic(http.ErrAbortHandler) // some of an answer is out that does not count: break it off
	default:
		if c != nil {
			c.discard()
		}
		reply(w, problemOf(err))
	}
}

// outcome says what an answer means for the operation.
func (m *httpHandler) outcome(c *capture, op *Op) (any, error) {
	c.finish()
	if !m.c.Keep(c.status) && !op.Decided() {
		return nil, &unkeptError{c}
	}
	if c.dropped {
		op.drop(-1)
		return Answer{Status: c.status}, nil
	}
	a := Answer{Status: c.status, Body: c.body}
	for _, name := range m.c.Headers {
		for _, value := range c.header[name] {
			if a.Header == nil {
				a.Header = make(map[string][][]byte, 4)
			}
			a.Header[name] = append(a.Header[name], []byte(value))
		}
	}
	return a, nil
}

// replay sends an answer that was given before.
func (m *httpHandler) replay(w http.ResponseWriter, body []byte, c *capture) {
	if c != nil {
		if c.live {
			panic(http.ErrAbortHandler) // another try's answer is what counts, and some of this one is out
		}
		c.discard()
	}
	a, err := decode[Answer](body, "the request")
	if err != nil || a.Status < 200 || a.Status > 999 {
		reply(w, problem{status: http.StatusGone, name: "not-kept", detail: "the request is done, and its answer can't be read"})
		return
	}
	h := w.Header()
	for name, values := range a.Header {
		h.Del(name)
		for _, v := range values {
			h[name] = append(h[name], string(v))
		}
	}
	h.Set(Replayed, "true")
	w.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = w.Write(a.Body) // if the client has gone, there is nobody to tell
	}
}

// unkeptError ends a try whose answer is not kept.
type unkeptError struct{ c *capture }

func (e *unkeptError) Error() string {
	return "idem: an answer that is not kept: " + http.StatusText(e.c.status)
}

// Outcome: a client's error, or "later", says that nothing was done. After a server's nobody knows.
func (e *unkeptError) Outcome() cas.Outcome {
	if e.c.status < 500 {
		return cas.NotApplied
	}
	return cas.Uncertain
}
