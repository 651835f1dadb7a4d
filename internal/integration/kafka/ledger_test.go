package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// ledger stands for a database: each key has a sum and the number of its last entry, changed together with positions, under a
// fence. (The chaos suite uses a real one.)
type ledger struct {
	gate fence.Gate

	mu        sync.Mutex
	accounts  map[string]account
	positions map[string]int64
	calls     map[string]int // of Process, by record
	count     int64          // entries applied
	refuse    func(r *kgo.Record) error
}

// account is what the ledger has of a key. An entry that was not the next of its key is counted as wrong: it was lost, doubled, or
// out of order.
type account struct{ Sum, Seq, Wrong int64 }

func newLedger() *ledger {
	return &ledger{accounts: make(map[string]account), positions: make(map[string]int64), calls: make(map[string]int)}
}

// entry is a record's value: the seq-th of its key, counted from 1, adds amount.
type entry struct{ seq, amount int64 }

func (e entry) value() []byte { return fmt.Appendf(nil, "%d %d", e.seq, e.amount) }

var errValue = errors.New("not an entry")

func parseEntry(value []byte) (e entry, err error) {
	if n, err := fmt.Sscanf(string(value), "%d %d", &e.seq, &e.amount); n != 2 || err != nil {
		return e, errValue
	}
	return e, nil
}

func (a account) add(e entry) account {
	if e.seq != a.Seq+1 {
		a.Wrong++
	}
	a.Seq, a.Sum = e.seq, a.Sum+e.amount
	return a
}

// open consumes into the ledger: effects and position together, under the fence.
func (l *ledger) open(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
	tok, stream := t.Token(), fmt.Sprintf("%s/%d", kafka.Stream(ctx), t.Token().Shard)
	if err := l.gate.Seal(ctx, tok); err != nil {
		return kafka.Partition{}, err
	}
	return kafka.Partition{
		From: l.position(stream),
		Process: func(_ context.Context, recs []*kgo.Record) error {
			l.called(recs)
			return l.tx(tok, func() error { return l.apply(stream, recs) })
		},
		Advance: func(_ context.Context, next int64) error {
			return l.tx(tok, func() error { return l.advance(stream, next) })
		},
	}, nil
}

func (l *ledger) tx(tok shard.Token, fn func() error) error {
	return l.gate.Do(tok, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		return kafka.NotApplied(fn())
	})
}

func (l *ledger) apply(stream string, recs []*kgo.Record) error {
	changed := make(map[string]account)
	for _, r := range recs {
		if l.refuse != nil {
			if err := l.refuse(r); err != nil {
				return err
			}
		}
		e, err := parseEntry(r.Value)
		if err != nil {
			return err
		}
		key := string(r.Key)
		a, ok := changed[key]
		if !ok {
			a = l.accounts[key]
		}
		changed[key] = a.add(e)
	}
	if err := l.advance(stream, kafka.Next(recs)); err != nil {
		return err
	}
	maps.Copy(l.accounts, changed)
	l.count += int64(len(recs))
	return nil
}

func (l *ledger) advance(stream string, next int64) error {
	if was, ok := l.positions[stream]; ok && next <= was {
		return &fence.PositionError{Stream: stream, Stored: was, Next: next}
	}
	l.positions[stream] = next
	return nil
}

// position is -1 if there is none.
func (l *ledger) position(stream string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next, ok := l.positions[stream]; ok {
		return next
	}
	return -1
}

func (l *ledger) called(recs []*kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range recs {
		l.calls[fmt.Sprintf("%d@%d", r.Partition, r.Offset)]++
	}
}

// again is how many records Process was given more than once.
func (l *ledger) again() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, calls := range l.calls {
		if calls > 1 {
			n++
		}
	}
	return n
}

func (l *ledger) applied() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

func (l *ledger) all() map[string]account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.accounts)
}
