package idem

import (
	"context"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// leases gives out leases that last at least as long as asked. One is granted for longer, by one part
// in so many, and used for that part of its time; it is never renewed. So many keys share a lease and
// end together, and a process that crashes leaves nothing behind that does not end by itself.
type leases struct {
	s    cas.Store
	part time.Duration // the divisor

	// turn is held by whoever grants or looks: a channel, because it is held over I/O. It guards current.
	turn    chan struct{}
	current map[time.Duration]granted
}

type granted struct {
	id    cas.LeaseID
	until time.Duration // by the store's clock, which goes on during suspend: not to be used later
}

func newLeases(s cas.Store, part time.Duration) *leases {
	return &leases{s: s, part: part, turn: make(chan struct{}, 1), current: make(map[time.Duration]granted)}
}

// lease returns a lease that has d left.
func (l *leases) lease(ctx context.Context, d time.Duration) (cas.LeaseID, error) {
	if err := l.take(ctx); err != nil {
		return 0, err
	}
	defer l.give()
	// What counts is when it was asked for: the store has counted from later on.
	now := l.s.Now()
	if g, ok := l.current[d]; ok && now < g.until {
		return g.id, nil
	}
	share := max(d/l.part, time.Second)
	lease, err := l.s.Grant(ctx, d+share)
	if err != nil {
		return 0, &opError{"granting a lease", err, cas.NotApplied} // at worst one is left that nothing is under
	}
	if len(l.current) > 64 { // engines with so many settings share no store
		clear(l.current)
	}
	l.current[d] = granted{id: lease.ID, until: now + lease.TTL - d}
	return lease.ID, nil
}

// take takes the turn. If it is free ctx is not looked at, since whoever asks for Done pays for a timer.
func (l *leases) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &opError{"waiting for a lease", context.Cause(ctx), cas.NotApplied}
	}
}

func (l *leases) give() { <-l.turn }

// forget makes the next caller grant anew: a lease was gone that should not have been.
func (l *leases) forget() {
	l.turn <- struct{}{}
	clear(l.current)
	l.give()
}
