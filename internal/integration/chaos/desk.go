package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
)

// desk is the one goroutine that works on a shard's registers, for one tenure. What it has in memory is true as long
// as nobody else writes; the resource sees to it that it can't write once somebody does.
type desk struct {
	node   string
	tenure *owner.Tenure
	where  registers
	values map[string]int64
	orders chan request // unbuffered: what is taken is answered
	done   chan struct{}
	broken bool   // memory and resource may differ
	recent string // the register that was written last
	tell   func(event)
}

// request is an operation for a desk.
type request struct {
	key   string
	order order
	reply chan<- reply // has room for one
}

type reply struct {
	value int64
	err   error
}

// writeTimeout bounds one use of a resource. Nothing else does: neither the request's context nor the tenure's.
const writeTimeout = 2 * time.Second

// beatEvery is how often an owner writes by itself.
const beatEvery = 150 * time.Millisecond

// refusal is an error of a request of which nothing was carried out.
type refusal string

func (r refusal) Error() string      { return string(r) }
func (refusal) Outcome() cas.Outcome { return cas.NotApplied }

// service has the desks of a node.
type service struct {
	node  string
	sql   *sqlRegisters
	store *storeRegisters
	desks sync.Map // *owner.Tenure to *desk, while its handler runs
	tell  func(event)
}

// serve is the owner.Handler.
func (s *service) serve(ctx context.Context, t *owner.Tenure) error {
	var where registers = s.sql
	if inStore(t.Token().Shard) {
		where = s.store
	}
	values, err := where.load(ctx, t)
	if err != nil {
		return err
	}
	d := &desk{
		node: s.node, tenure: t, where: where, values: values, tell: s.tell,
		orders: make(chan request), done: make(chan struct{}),
	}
	s.desks.Store(t, d)
	defer s.desks.Delete(t)
	last := values[beatKey(t.Token().Shard)]
	t.Ready()
	var beats sync.WaitGroup
	beats.Go(func() { d.beat(ctx, last) })
	d.work(ctx)
	beats.Wait()
	return nil
}

// submit gives an order to the tenure's desk and waits for the answer, whatever happens to the tenure.
func (s *service) submit(t *owner.Tenure, key string, o order) (int64, error) {
	d, ok := s.desks.Load(t)
	if !ok {
		return 0, refusal("the handler has returned")
	}
	answered := make(chan reply, 1)
	select {
	case d.(*desk).orders <- request{key, o, answered}:
		r := <-answered
		return r.value, r.err
	case <-d.(*desk).done:
		return 0, refusal("the handler has ended")
	}
}

// work carries out orders until ctx has ended and nobody waits any more. It does not look at the tenure: only the
// resource may refuse.
func (d *desk) work(ctx context.Context) {
	defer close(d.done)
	for {
		select {
		case r := <-d.orders:
			d.answer(r)
			continue
		case <-ctx.Done():
		}
		select {
		case r := <-d.orders:
			d.answer(r)
		default:
			d.flush()
			return
		}
	}
}

// flush writes a register once more, as owners do that write late. After a hand-off it changes nothing; but who has been
// replaced without knowing would undo what its successor wrote.
func (d *desk) flush() {
	if d.broken || d.recent == "" {
		return
	}
	tok := d.tenure.Token()
	id := fmt.Sprintf("flush-%d-%d", tok.Shard, tok.Epoch)
	if err := d.try(d.row(id, d.recent, opFlush, d.values[d.recent])); err != nil {
		d.failed(opFlush, err)
	}
}

func (d *desk) answer(r request) {
	if d.broken {
		r.reply <- reply{err: refusal("an earlier write of this tenure failed")}
		return
	}
	v, err := d.carryOut(r.key, r.order)
	if err != nil {
		d.broken = true
		d.failed(r.order.Kind, err)
	}
	r.reply <- reply{v, err}
}

func (d *desk) carryOut(key string, o order) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	value := d.values[key]
	switch o.Kind {
	case opRead:
		// What was admitted may have waited until another is the owner: so a read asks, too.
		return value, d.where.confirm(ctx, d.tenure)
	case opWrite:
		value = o.Arg
	case opAdd:
		value += o.Arg
	default:
		return 0, refusal(fmt.Sprintf("unknown kind %q of operation", o.Kind))
	}
	err := d.where.write(ctx, d.tenure, d.row(o.ID, key, o.Kind, value))
	if err == nil {
		d.values[key], d.recent = value, key
	}
	return value, err
}

func (d *desk) row(id, key, kind string, value int64) row {
	tok := d.tenure.Token()
	return row{Shard: tok.Shard, ID: id, Key: key, Kind: kind, Value: value, Epoch: tok.Epoch, Node: d.node}
}

// failed gives the tenure up: the next one loads again.
func (d *desk) failed(kind string, err error) {
	if d.where.stale(err) {
		d.tell(event{Stale: &stale{Token: d.tenure.Token(), Kind: kind, Err: err.Error()}})
	}
	d.tenure.Fail(err)
}

// beat writes one more than it wrote last, again and again, and once more when the tenure is over. In a hand-off it
// still may; otherwise somebody else may be the owner already. It never asks.
func (d *desk) beat(ctx context.Context, last int64) {
	tok := d.tenure.Token()
	key := beatKey(tok.Shard)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			over = true
		}
		last++
		id := fmt.Sprintf("%s-%d-%d", key, tok.Epoch, last)
		if err := d.try(d.row(id, key, opBeat, last)); err != nil {
			d.failed(opBeat, err)
			return
		}
		if over && !errors.Is(context.Cause(ctx), owner.ErrHandoff) {
			d.tell(event{Late: &tok}) // accepted: nobody had taken over yet, or nothing guards it
		}
	}
}

func (d *desk) try(r row) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return d.where.write(ctx, d.tenure, r)
}
