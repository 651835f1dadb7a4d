// Package trip decides where a request for a key goes next: whom to ask first, whom after a refusal, how long to wait
// in between and when to give up. It knows no protocol. Whoever sends the request tells it what became of
// each attempt:
//
//	for {
//		at, err := t.Next(ctx)          // waits until somebody is believed to own the shard
//		...                             // send it there
//		t.Refused(at, who, epoch)       // the node does not own it; who does, if it said
//		t.Unreached(at, err)            // there was no connection, so nothing was sent
//		if err := t.Rest(ctx); ...      // in both cases, before the next attempt
//	}
//
// Any other end of an attempt is the end of the trip.
package trip

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// Table is what is known of owners: *router.Table.
type Table interface {
	Owner(key string) (*shard.Member, shard.Epoch)
	Group() shard.Group
	GroupID() string
	Changed(key string) <-chan struct{}
}

// Config is what all trips of a router share.
type Config struct {
	Table  Table
	Target func(shard.Member) string // where peers reach a member
	Tries  int                       // attempts in all
	Wait   time.Duration             // for somebody to be known as owner
}

// Stop is an attempt: the node at Target is believed to own the shard, by Epoch.
type Stop struct {
	Member  shard.Member
	Epoch   shard.Epoch
	Target  string
	GroupID string
}

// ErrRefused is what an attempt ends with whose node is not the owner.
var ErrRefused = errors.New("refused, it does not own the shard")

// ErrNoAddress is what an attempt ends with whose node can't be reached by anybody.
var ErrNoAddress = errors.New("it has no address: set owner.Config.Address")

// Trip is one request on its way. One goroutine uses it at a time.
type Trip struct {
	c        Config
	key      string
	deadline time.Time
	tries    int
	refused  bool // the last attempt was

	learned known  // what nodes said
	not     belief // refuted, with all that is older
	last    Stop
	err     error // of the last attempt
}

// known is an owner; member is nil for nobody.
type known struct {
	member *shard.Member
	epoch  shard.Epoch
}

// belief is that the node at target owns the shard by epoch.
type belief struct {
	epoch  shard.Epoch
	target string
}

// New is a trip to the owner of key.
func New(c Config, key string) *Trip {
	return &Trip{c: c, key: key, deadline: time.Now().Add(c.Wait)}
}

// Last is the attempt that was made last; zero before the first.
func (t *Trip) Last() Stop { return t.last }

// Shard is where the key belongs.
func (t *Trip) Shard() int { return t.c.Table.Group().Of(t.key) }

// Next is whom to ask. It waits for somebody to be known. The error is that of the last attempt if there are to be no more, an
// *owner.NotOwnerError if nobody was known in time, or the cause of ctx's end.
func (t *Trip) Next(ctx context.Context) (Stop, error) {
	if t.tries == t.c.Tries {
		return Stop{}, t.err
	}
	k, err := t.await(ctx)
	if err != nil {
		return Stop{}, err
	}
	t.tries++
	t.last = Stop{Member: *k.member, Epoch: k.epoch, Target: t.c.Target(*k.member), GroupID: t.c.Table.GroupID()}
	if t.last.Target == "" {
		t.err = ErrNoAddress
		return Stop{}, t.err
	}
	return t.last, nil
}

func (t *Trip) await(ctx context.Context) (known, error) {
	if k := t.pick(); k.member != nil {
		return k, nil
	}
	timeout := time.NewTimer(time.Until(t.deadline))
	defer timeout.Stop()
	for {
		changed := t.c.Table.Changed(t.key)
		if k := t.pick(); k.member != nil {
			return k, nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			if t.err != nil {
				return known{}, t.err
			}
			return known{}, &owner.NotOwnerError{Shard: t.Shard()}
		case <-ctx.Done():
			return known{}, context.Cause(ctx)
		}
	}
}

// pick is the newest that is known and not refuted. While the table can't tell which group of its name it follows,
// nobody is: a node might refuse what has no group.
func (t *Trip) pick() known {
	if t.c.Table.GroupID() == "" {
		return known{}
	}
	var first, second known
	first.member, first.epoch = t.c.Table.Owner(t.key)
	second = t.learned
	if first.member == nil || second.member != nil && second.epoch > first.epoch {
		first, second = second, first
	}
	for _, k := range []known{first, second} {
		if k.member != nil && !t.refuted(k) && !t.halfKnown(k) {
			return k
		}
	}
	return known{}
}

// halfKnown: a node has named k, of which it can only say ID and Address, and that is not enough to reach it. The table will
// soon show all of it: wait for that.
func (t *Trip) halfKnown(k known) bool {
	return k.member == t.learned.member && t.c.Target(*k.member) == ""
}

// refuted: by the same epoch, only another address is worth a try: the member's record may have changed.
func (t *Trip) refuted(k known) bool {
	return k.epoch < t.not.epoch || belief{k.epoch, t.c.Target(*k.member)} == t.not
}

// Learn takes note of who a node says is the owner; m.ID "" says nothing.
func (t *Trip) Learn(m shard.Member, e shard.Epoch) {
	if m.ID != "" && (t.learned.member == nil || e >= t.learned.epoch) {
		t.learned = known{&m, e}
	}
}

// Refused takes note that the node does not own the shard, and who does if it knows.
func (t *Trip) Refused(at Stop, who shard.Member, e shard.Epoch) {
	if at.Epoch >= t.not.epoch {
		t.not = belief{at.Epoch, at.Target}
	}
	t.Learn(who, e)
	t.refused, t.err = true, ErrRefused
}

// Unreached takes note that the attempt ended with err before anything was sent.
func (t *Trip) Unreached(_ Stop, err error) { t.refused, t.err = false, err }

const firstRest = 50 * time.Millisecond // then doubled

// Rest waits before the next attempt, less if the shard changes hands; not at all after a first refusal, which says where
// to go. The error is the cause of ctx's end.
func (t *Trip) Rest(ctx context.Context) error {
	if t.refused && t.tries == 1 {
		return nil
	}
	timer := time.NewTimer(jitter(firstRest << min(t.tries-1, 6)))
	defer timer.Stop()
	select {
	case <-t.c.Table.Changed(t.key):
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// jitter is between half of d and one and a half, so that those refused together don't come back together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
