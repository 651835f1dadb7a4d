package idem

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Op is a running operation. fn gets it from Do, and whatever fn calls from From. It is good until
// fn has returned. Safe for concurrent use; steps that run at once need different names.
type Op struct {
	e           *Engine
	q           Request
	id          string
	interrupted bool // an earlier try was
	doubt       bool // and that has not been settled; fn's goroutine only
	tries       int
	claim       string

	life context.Context // ends with fn, or with a *LostError when another try takes over
	end  context.CancelCauseFunc

	keeper keeper

	until   atomic.Int64 // the attempt's end, in nanoseconds after begun
	written atomic.Int64 // when what was last written was sent, likewise
	begun   time.Time
	decided atomic.Bool
	dropped atomic.Bool // the result can't be kept
	size    int         // of a dropped one, or -1; set before dropped

	// turn is held by whoever writes the record: a channel, because it is held over I/O. With it are changed
	// the fields below; rev and over are read without it too.
	turn chan struct{}
	head head
	sent int // writes, those included that came to nothing: no two have the same number
	rev  atomic.Int64
	over atomic.Bool // finished, or given up
	last []byte      // the result that a last step has recorded; over is set
}

func (e *Engine) newOp(q Request, o opening, rev int64, sent time.Time) *Op {
	op := &Op{
		e: e, q: q, id: o.id, interrupted: o.interrupted, doubt: o.interrupted, tries: o.head.Tries, claim: o.head.Claim,
		begun: sent, turn: make(chan struct{}, 1), head: o.head, sent: o.head.Write,
	}
	op.rev.Store(rev)
	op.until.Store(int64(e.c.Attempt))
	return op
}

type opKey struct{}

// From returns ctx's operation, or ErrNoOp.
func From(ctx context.Context) (*Op, error) {
	if op, ok := ctx.Value(opKey{}).(*Op); ok {
		return op, nil
	}
	return nil, ErrNoOp
}

// Key is the key that Step gives to the step of that name: the same on each try, also if the record was
// lost in between. It has 45 letters, digits and underscores.
func (o *Op) Key(name string) string { return o.q.stepKey(name) }

// Interrupted reports whether an earlier try was interrupted, so that nobody knows how far it came.
func (o *Op) Interrupted() bool { return o.interrupted }

// Tries is how many times the operation was begun, this time included.
func (o *Op) Tries() int { return o.tries }

// Request is what Do was given.
func (o *Op) Request() Request { return o.q }

// Store is the engine's.
func (o *Op) Store() Store { return o.e.store }

// Decide declares that the operation has had its effect, so that HTTP keeps its answer whatever the
// status, 5xx too, and a gRPC interceptor whatever the code.
func (o *Op) Decide() { o.decided.Store(true) }

// Decided reports whether Decide was called.
func (o *Op) Decided() bool { return o.decided.Load() }

// drop says that the result, of that size, is not to be kept.
func (o *Op) drop(size int) {
	if !o.dropped.Load() {
		o.size = size
		o.dropped.Store(true)
	}
}

// lock takes the turn to write. If it is free it is given even if ctx has ended: what has been done is
// to be recorded.
func (o *Op) lock(ctx context.Context) error {
	select {
	case o.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case o.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &opError{"waiting for another step to be recorded", context.Cause(ctx), cas.NotApplied}
	}
}

func (o *Op) unlock() { <-o.turn }

// lost returns the *LostError if another try has taken over.
func (o *Op) lost() error {
	if lost, ok := context.Cause(o.life).(*LostError); ok {
		return lost
	}
	return nil
}

// lose ends the operation's context, if another try is seen to have taken over.
func (o *Op) lose(err error) *LostError {
	lost := &LostError{Err: err}
	o.end(lost)
	return lost
}

var errTaken = refused("idem: the record has another try's claim")

// touched notes that the attempt was extended by what was sent then.
func (o *Op) touched(sent time.Time) {
	o.until.Store(int64(sent.Sub(o.begun) + o.e.c.Attempt))
}

// write changes the record to what change makes of its head, with the turn held. If the record turns out to be
// this try's own, of a write that was thought to have failed, it is changed in turn. A *ConflictError
// means that another try has taken over.
func (o *Op) write(ctx context.Context, body []byte, patient bool, change func(*head)) error {
	for {
		h := o.head
		h.Write = o.number()
		change(&h)
		b, err := h.encode()
		if err != nil {
			return err
		}
		sent := time.Now()
		rev, err := o.e.swap(ctx, o.id, o.rev.Load(), o.e.put(h.State, b, body), &h, patient)
		if err == nil {
			o.moved(h, rev, sent)
			return nil
		}
		if conflict, ok := err.(*ConflictError); !ok || !o.adopt(conflict.Current) {
			return err
		}
	}
}

// number is the next write's.
func (o *Op) number() int {
	o.sent++
	return o.sent
}

// moved notes that the record is h at rev, by what was sent then.
func (o *Op) moved(h head, rev int64, sent time.Time) {
	o.head = h
	o.rev.Store(rev)
	o.written.Store(int64(sent.Sub(o.begun)))
	o.touched(sent)
}

// adopt takes over what is there if it is this try's own.
func (o *Op) adopt(r Record) bool {
	if r.Rev == 0 {
		return false
	}
	h, err := decodeHead(r, o.q)
	if err != nil || h.Claim != o.claim || h.State != running {
		return false
	}
	o.head = h
	o.rev.Store(r.Rev)
	return true
}

// put is what is written for a head in that state.
func (e *Engine) put(s state, h, body []byte) Put {
	p := Put{Head: h, Body: body, Forget: e.forget()}
	switch s {
	case running:
		p.Attempt = e.c.Attempt
	case done, failed:
		p.Replay = e.c.Keep
	}
	return p
}

// memo returns what is recorded of a step, and an error if it must not be run.
func (o *Op) memo(ctx context.Context, name string) (memo, bool, error) {
	if name == "" || len(name) > 100 {
		return memo{}, false, refused("idem: step name %.100q has %d bytes: want 1 to 100", name, len(name))
	}
	if err := o.lock(ctx); err != nil {
		return memo{}, false, err
	}
	defer o.unlock()
	if o.over.Load() {
		return memo{}, false, refused("idem: step %q: the operation has ended", name)
	}
	m, ok := o.head.Steps[name]
	if !ok {
		return m, false, o.lost()
	}
	if m.Dropped {
		return m, true, &TooLargeError{Step: name, Size: m.Size}
	}
	return m, true, nil
}

// newMemo makes a memo of a step's value.
func (o *Op) newMemo(name string, value any) (memo, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return memo{Dropped: true, Size: -1}, &opError{"the value of step " + name + " can't be kept as JSON", err, cas.Applied}
	}
	if len(b) > o.e.c.MaxResult {
		return memo{Dropped: true, Size: len(b)}, nil
	}
	return memo{Value: b}, nil
}

// with is a change of the head that adds a memo.
func (m memo) with(name string) func(*head) {
	return func(h *head) {
		steps := maps.Clone(h.Steps)
		if steps == nil {
			steps = make(map[string]memo, 1)
		}
		steps[name] = m
		h.Steps = steps
	}
}

// record records a step that has run.
func (o *Op) record(ctx context.Context, name string, value any) error {
	lasting := o.e.lasting(ctx)
	defer lasting.cancel()
	m, bad := o.newMemo(name, value)
	if err := o.lock(lasting); err != nil {
		return &FinishError{Step: name, Err: err}
	}
	defer o.unlock()
	if o.over.Load() {
		return &FinishError{Step: name, Err: refused("idem: the operation has ended before its step")}
	}
	err := o.write(lasting, nil, true, m.with(name))
	if errors.Is(err, cas.ErrInvalid) && !m.Dropped { // larger than the store takes
		m = memo{Dropped: true, Size: len(m.Value)}
		err = o.write(lasting, nil, true, m.with(name))
	}
	if _, taken := err.(*ConflictError); taken {
		return o.lose(errTaken)
	}
	if err != nil {
		return &FinishError{Step: name, Err: err}
	}
	return bad
}
