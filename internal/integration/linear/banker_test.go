package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// movement is one operation of a history.
type movement struct {
	move
	client    int
	call, ret int64
	told      told
	receipt   string
}

// banker does moves one after another.
type banker struct {
	id      int
	store   cas.Store
	rng     *rand.Rand
	policy  policy
	limit   func(context.Context) (context.Context, context.CancelFunc)
	clock   func() int64
	sums    []int       // of what each run of an audit saw, committed or not
	late    []*movement // done, and to be tried once more
	done    []*movement
	expired int // of those
	faults  []string
}

// transact calls UpdateAll once. It reads one key after another, so that reads can tear.
func (b *banker) transact(ctx context.Context, m move, receipt string) (told, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	before, err := cas.UpdateAll(ctx, b.store, "move", func(d *cas.Draft) (l ledger, err error) {
		read := []int{m.From, m.To}
		if m.audit() {
			read = []int{0, 1, 2}
		}
		sum := 0
		for _, i := range read {
			if l[i], err = cas.Read[purse](d, accounts[i]); err != nil {
				return l, err
			}
			sum += l[i].N
		}
		switch {
		case m.audit():
			b.sums = append(b.sums, sum)
			return l, nil
		case l[m.From].N < m.N:
			return l, &poorError{l}
		}
		next := m.on(l)
		return l, errors.Join(cas.Write(d, accounts[m.From], next[m.From]), cas.Write(d, accounts[m.To], next[m.To]))
	}, cas.UpdateConfig{Receipt: receipt, Tries: 1 + b.rng.IntN(6)})
	if poor, ok := errors.AsType[*poorError](err); ok {
		return told{cas.NotApplied, true, poor.seen}, err
	}
	return told{Outcome: cas.OutcomeOf(err), Before: before}, err
}

// poorError is a refusal, which says what the operation has read.
type poorError struct{ seen ledger }

func (*poorError) Error() string { return "insufficient funds" }

// act does a move, or once more one that was done before.
func (b *banker) act(ctx context.Context, n int) {
	if len(b.late) > 0 && b.rng.IntN(4) == 0 {
		b.repeat(ctx)
		return
	}
	m := move{ID: fmt.Sprintf("%d.%d", b.id, n), From: b.rng.IntN(3), To: b.rng.IntN(3), N: 1 + b.rng.IntN(60)}
	if m.audit() {
		m.N = 0
	}
	mv := &movement{move: m, client: b.id, call: b.clock(), ret: never}
	b.done = append(b.done, mv)
	receipt := ""
	if b.policy == sound && !m.audit() && b.rng.IntN(3) > 0 {
		receipt = cas.Dated(time.Now(), m.ID)
	}
	doubt := false
	for range 6 {
		t, _ := b.transact(ctx, m, receipt)
		switch {
		case t.Outcome == cas.Uncertain && (receipt != "" || b.policy == naive):
			doubt = true
			continue
		case t.Outcome == cas.Uncertain && b.policy == hopeful:
			t = told{Outcome: cas.NotApplied}
		case t.Outcome == cas.Uncertain:
			return
		case t.Outcome == cas.NotApplied && doubt && b.policy == sound:
			// It speaks for this call alone: only the receipt speaks for the one before.
			if outcome := b.resolve(ctx, receipt); outcome != cas.NotApplied {
				continue
			}
			t.Poor = false // it saw that at a time when the other may have been under way
		}
		mv.told, mv.ret = t, b.clock()
		if t.Outcome == cas.Applied && receipt != "" {
			mv.receipt = receipt
			b.late = append(b.late, mv)
		}
		return
	}
}

func (b *banker) resolve(ctx context.Context, receipt string) cas.Outcome {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	outcome, _ := cas.Resolve(ctx, b.store, "move", receipt)
	return outcome
}

// repeat tries a move that was applied, minutes later as a rule: the answer is the old one, or that
// it comes too late.
func (b *banker) repeat(ctx context.Context) {
	i := b.rng.IntN(len(b.late))
	mv := b.late[i]
	t, err := b.transact(ctx, mv.move, mv.receipt)
	switch {
	case t.Outcome == cas.Applied && t != mv.told:
		b.faults = append(b.faults, fmt.Sprintf("%s: told %+v, and again %+v", mv.ID, mv.told, t))
	case errors.Is(err, cas.ErrReceiptExpired):
		b.expired++
		b.late = slices.Delete(b.late, i, i+1)
	case t.Poor: // its function has run, so it did not recognise itself
		b.faults = append(b.faults, fmt.Sprintf("%s: told %+v, and then that there was too little", mv.ID, mv.told))
	}
}
