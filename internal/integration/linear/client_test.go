package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/tenure-go/tenure/cas"
)

// policy is what a client does about an uncertain outcome.
type policy string

const (
	// sound: half of the updates carry a receipt, and are tried again, by this client or another,
	// until they are told their outcome, or are resolved; the others are left uncertain.
	sound policy = "sound"
	// naive: no receipts, and what is uncertain is done again.
	naive policy = "naive"
	// hopeful: no receipts, and what is uncertain counts as failed.
	hopeful policy = "hopeful"
)

// job is an update with a receipt, and may pass from client to client.
type job struct {
	*record
	doubt  bool // a call of it ended uncertain
	shared bool // another client is at it too, so only "applied" is the last word
}

// pool is the jobs that clients left to each other: unfinished ones, and finished ones that
// somebody tries again because it does not know. Safe for concurrent use.
type pool struct {
	mu   sync.Mutex // guards jobs
	jobs []*job
}

func (p *pool) give(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs = append(p.jobs, j)
}

func (p *pool) take(rng *rand.Rand) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.jobs) == 0 {
		return nil
	}
	i := rng.IntN(len(p.jobs))
	j := p.jobs[i]
	p.jobs = append(p.jobs[:i], p.jobs[i+1:]...)
	return j
}

// client does operations one after another.
type client struct {
	id     int
	store  cas.Store
	rng    *rand.Rand
	policy policy
	keys   []string
	h      *history
	pool   *pool
	// limit gives the context of one call.
	limit func(context.Context) (context.Context, context.CancelFunc)

	n      int
	guard  int64    // the claim's revision as last seen
	faults []string // answers that contradict each other
}

func (c *client) operation(v verb) operation {
	c.n++
	return operation{
		ID:   fmt.Sprintf("%d.%d", c.id, c.n),
		Key:  c.keys[c.rng.IntN(len(c.keys))],
		Verb: v,
		N:    1 + c.rng.IntN(9),
	}
}

// act does one operation, whatever the seed says.
func (c *client) act(ctx context.Context) {
	switch c.rng.IntN(10) {
	case 0:
		c.read(ctx, c.operation(get).Key)
	case 1:
		c.commit(ctx, put)
	case 2:
		if c.rng.IntN(4) == 0 {
			c.commit(ctx, remove)
		} else {
			c.commit(ctx, put)
		}
	case 3:
		if j := c.pool.take(c.rng); j != nil {
			c.pursue(ctx, j)
			return
		}
		c.read(ctx, c.operation(get).Key)
	default:
		c.update(ctx)
	}
}

func (c *client) read(ctx context.Context, key string) (cell, int64, bool) {
	r := c.h.begin(c.id, operation{ID: "read", Key: key, Verb: get})
	ctx, cancel := c.limit(ctx)
	defer cancel()
	v, rev, err := cas.Get[cell](ctx, c.store, key)
	if err != nil {
		c.h.end(r, answer{Outcome: cas.NotApplied}, 0)
		return cell{}, 0, false
	}
	c.h.end(r, answer{cas.Applied, v}, rev)
	return v, rev, true
}

// commit changes a key that it has read, by hand.
func (c *client) commit(ctx context.Context, v verb) {
	o := c.operation(v)
	seen, rev, ok := c.read(ctx, o.Key)
	if !ok || v == remove && rev == 0 {
		return
	}
	o.Seen = seen
	value, err := json.Marshal(o.on(seen))
	if err != nil {
		panic(err)
	}
	txn := cas.Txn{If: []cas.Cond{cas.AtRev(o.Key, rev)}, Then: []cas.Op{cas.Put(o.Key, value)}}
	if v == remove {
		txn.Then = []cas.Op{cas.Delete(o.Key)}
	}
	r := c.h.begin(c.id, o)
	ctx, cancel := c.limit(ctx)
	defer cancel()
	_, err = c.store.Commit(ctx, txn)
	if conflict, ok := err.(*cas.ConflictError); ok { // what it brings along is a read
		var now cell
		if e := conflict.Current[0]; e.Rev == 0 || json.Unmarshal(e.Value, &now) == nil {
			seen := *r
			seen.operation = operation{ID: "conflict", Key: o.Key, Verb: get}
			c.h.end(c.h.insert(&seen), answer{cas.Applied, now}, e.Rev)
		}
	}
	c.decide(r, o.on(seen), err)
}

// decide notes what an operation without a receipt was told.
func (c *client) decide(r *record, v cell, err error) {
	switch outcome := cas.OutcomeOf(err); {
	case outcome == cas.Applied:
		c.h.end(r, answer{cas.Applied, v}, 0)
	case outcome == cas.NotApplied, c.policy == hopeful:
		c.h.end(r, answer{Outcome: cas.NotApplied}, 0)
	}
}

func (c *client) update(ctx context.Context) {
	o := c.operation([]verb{add, extend, set}[c.rng.IntN(3)])
	receipt := c.policy == sound && c.rng.IntN(3) > 0
	if c.rng.IntN(4) == 0 {
		o.Guard = c.guard
	}
	r := c.h.begin(c.id, o)
	if receipt {
		j := &job{record: r, shared: c.rng.IntN(5) == 0}
		if j.shared {
			c.pool.give(&job{record: r, shared: true})
		}
		c.pursue(ctx, j)
		return
	}
	for range 5 {
		v, err := c.call(ctx, r, "")
		c.decide(r, v, err)
		if cas.OutcomeOf(err) != cas.Uncertain || c.policy != naive {
			return
		}
	}
}

// call calls Update, once.
func (c *client) call(ctx context.Context, r *record, receipt string) (cell, error) {
	c.h.tried(r)
	config := cas.UpdateConfig{Receipt: receipt, Tries: 1 + c.rng.IntN(6)}
	if r.Guard != 0 {
		config.Guards = []cas.Cond{cas.AtRev(claim, r.Guard)}
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	v, err := cas.Update(ctx, c.store, r.Key, func(v *cell) error {
		*v = r.on(*v)
		return nil
	}, config)
	if conflict, ok := errors.AsType[*cas.ConflictError](err); ok && r.Guard != 0 {
		for _, e := range conflict.Current {
			if e.Key == claim {
				c.guard = e.Rev
			}
		}
	}
	return v, err
}

// pursue tries a job until it is told its outcome, or leaves it to somebody else, or for ever.
func (c *client) pursue(ctx context.Context, j *job) {
	for ctx.Err() == nil {
		var outcome cas.Outcome
		if j.doubt && c.rng.IntN(4) == 0 {
			outcome = c.resolve(ctx, j)
		} else {
			outcome = c.again(ctx, j)
		}
		if outcome != cas.Uncertain {
			return
		}
		j.doubt = true
		switch c.rng.IntN(8) {
		case 0:
			return // nobody will ever know
		case 1, 2, 3:
			c.pool.give(j)
			return
		}
	}
}

// again calls Update with the job's receipt.
func (c *client) again(ctx context.Context, j *job) cas.Outcome {
	known := c.h.known(j.record)
	v, err := c.call(ctx, j.record, j.ID)
	switch cas.OutcomeOf(err) {
	case cas.Applied:
		if known.Outcome == cas.Applied && known.Cell != v {
			c.faults = append(c.faults, fmt.Sprintf("%s on %s was told %+v and then %+v", j.ID, j.Key, known.Cell, v))
		}
		c.h.end(j.record, answer{cas.Applied, v}, 0)
		if c.rng.IntN(3) == 0 {
			c.pool.give(j) // somebody does not know, and tries it once more
		}
		return cas.Applied
	case cas.NotApplied:
		if known.Outcome == cas.Applied {
			return cas.Applied // a read that failed, say: it is about this call
		}
		if j.doubt || j.shared {
			return cas.Uncertain // so it does not speak for the other calls
		}
		c.h.end(j.record, answer{Outcome: cas.NotApplied}, 0)
		return cas.NotApplied
	}
	return cas.Uncertain
}

func (c *client) resolve(ctx context.Context, j *job) cas.Outcome {
	c.h.tried(j.record)
	known := c.h.known(j.record)
	ctx, cancel := c.limit(ctx)
	defer cancel()
	outcome, _ := cas.Resolve(ctx, c.store, j.Key, j.ID)
	switch outcome {
	case cas.Applied:
		if known.Outcome != cas.Applied {
			return cas.Uncertain // Update tells what was stored
		}
	case cas.NotApplied:
		if known.Outcome == cas.Applied {
			c.faults = append(c.faults, fmt.Sprintf("%s on %s was told applied, and resolved as not applied", j.ID, j.Key))
		}
		if j.shared {
			return cas.Uncertain
		}
		c.h.end(j.record, answer{Outcome: cas.NotApplied}, 0)
	}
	return outcome
}
