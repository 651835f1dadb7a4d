package machine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// modelStore is etcd as the protocol sees it: revisions, leases, conditional transactions and events
// by revision. It knows no time of its own and fails only as told; what the network does
// is the world's part.
type modelStore struct {
	rev     int64
	cluster uint64
	keys    map[string]cas.Entry
	sorted  []string // the names in keys, in order
	leases  map[cas.LeaseID]*modelLease
	last    cas.LeaseID
	log     []cas.Change // what happened, in order; revisions of others' keys are not in it
	dropped int64        // what happened up to there was compacted away
	full    bool         // refuses puts

	// changed sees each event before it shows. why is the transaction's kind, or "expired".
	changed func(why string, before cas.Entry, ev cas.Event)
}

type modelLease struct {
	ttl     time.Duration
	expires time.Duration
	keys    []string // in order
}

func newModelStore() *modelStore {
	return &modelStore{
		rev: 1, cluster: 1,
		keys:    make(map[string]cas.Entry),
		leases:  make(map[cas.LeaseID]*modelLease),
		changed: func(string, cas.Entry, cas.Event) {},
	}
}

// foreign is a write to a key that is none of the group's.
func (s *modelStore) foreign() { s.rev++ }

func (s *modelStore) list() cas.Snapshot {
	snap := cas.Snapshot{Rev: s.rev, Cluster: s.cluster, Entries: make([]cas.Entry, 0, len(s.sorted))}
	for _, k := range s.sorted {
		snap.Entries = append(snap.Entries, s.keys[k])
	}
	return snap
}

func (s *modelStore) holds(c cas.Cond) bool {
	e := s.keys[c.Key]
	switch c.Attr {
	case cas.Rev:
		return e.Rev == c.Is
	case cas.Created:
		return e.Created == c.Is
	default:
		return int64(e.Lease) == c.Is
	}
}

// commit checks in etcd's order: the transaction itself, space, conditions, leases.
func (s *modelStore) commit(why string, t cas.Txn) (int64, error) {
	if err := t.Validate(); err != nil {
		return 0, err
	}
	if s.full && slices.ContainsFunc(t.Then, func(o cas.Op) bool { return !o.Delete }) {
		return 0, cas.ErrNoSpace
	}
	for _, c := range t.If {
		if !s.holds(c) {
			return 0, &cas.ConflictError{Rev: s.rev}
		}
	}
	for _, o := range t.Then {
		if o.Lease != 0 && s.leases[o.Lease] == nil {
			return 0, cas.ErrLeaseNotFound
		}
	}
	s.apply(why, t.Then)
	return s.rev, nil
}

func (s *modelStore) apply(why string, ops []cas.Op) {
	var events []cas.Event
	rev := s.rev + 1
	for _, o := range ops {
		before, was := s.keys[o.Key]
		if o.Delete && !was {
			continue
		}
		ev := cas.Event{Deleted: o.Delete, Entry: cas.Entry{Key: o.Key, Rev: rev}}
		if !o.Delete {
			ev.Value, ev.Lease, ev.Created = o.Value, o.Lease, before.Created
			if !was {
				ev.Created = rev
			}
		}
		s.changed(why, before, ev)
		s.attach(before.Lease, o.Key, false)
		s.attach(o.Lease, o.Key, true)
		at, _ := slices.BinarySearch(s.sorted, o.Key)
		switch {
		case o.Delete:
			delete(s.keys, o.Key)
			s.sorted = slices.Delete(s.sorted, at, at+1)
		default:
			s.keys[o.Key] = ev.Entry
			if !was {
				s.sorted = slices.Insert(s.sorted, at, o.Key)
			}
		}
		events = append(events, ev)
	}
	if len(events) > 0 {
		s.rev = rev
		s.log = append(s.log, cas.Change{Rev: rev, Events: events})
	}
}

func (s *modelStore) attach(lease cas.LeaseID, key string, there bool) {
	l := s.leases[lease]
	if l == nil {
		return
	}
	at, found := slices.BinarySearch(l.keys, key)
	switch {
	case there && !found:
		l.keys = slices.Insert(l.keys, at, key)
	case !there && found:
		l.keys = slices.Delete(l.keys, at, at+1)
	}
}

func (s *modelStore) grant(now, ttl time.Duration) cas.Lease {
	s.last++
	s.leases[s.last] = &modelLease{ttl: ttl, expires: now + ttl}
	return cas.Lease{ID: s.last, TTL: ttl, Rev: s.rev}
}

func (s *modelStore) renew(now time.Duration, id cas.LeaseID) (cas.Lease, error) {
	l := s.leases[id]
	if l == nil {
		return cas.Lease{ID: id}, cas.ErrLeaseNotFound
	}
	l.expires = now + l.ttl
	return cas.Lease{ID: id, TTL: l.ttl, Rev: s.rev}, nil
}

// revoke ends the lease and all that is under it, in one revision.
func (s *modelStore) revoke(why string, id cas.LeaseID) error {
	l := s.leases[id]
	if l == nil {
		return cas.ErrLeaseNotFound
	}
	ops := make([]cas.Op, len(l.keys))
	for i, k := range l.keys {
		ops[i] = cas.Delete(k)
	}
	delete(s.leases, id)
	s.apply(why, ops)
	return nil
}

// compact forgets what happened up to rev.
func (s *modelStore) compact(rev int64) {
	if rev > s.dropped {
		s.log, s.dropped = s.since(rev), rev
	}
}

// clone is a backup of s.
func (s *modelStore) clone() *modelStore {
	c := *s
	c.keys, c.sorted = maps.Clone(s.keys), slices.Clone(s.sorted)
	c.leases = make(map[cas.LeaseID]*modelLease, len(s.leases))
	for id, l := range s.leases {
		c.leases[id] = &modelLease{ttl: l.ttl, expires: l.expires, keys: slices.Clone(l.keys)}
	}
	c.log, c.dropped = nil, s.rev
	return &c
}

// elect has another leader take over: it does not know how far each lease has run, and gives each its full TTL again.
func (s *modelStore) elect(now time.Duration) {
	for _, l := range s.leases {
		l.expires = now + l.ttl
	}
}

// since is the log after rev.
func (s *modelStore) since(rev int64) []cas.Change {
	at, _ := slices.BinarySearchFunc(s.log, rev+1, func(c cas.Change, rev int64) int {
		return int(c.Rev - rev)
	})
	return s.log[at:]
}

// describe is a transaction as people read it: conditions, then changes, without the group's prefix.
func describe(prefix string, t cas.Txn) (ifs, thens []string) {
	short := func(k string) string { return k[min(len(prefix), len(k)):] }
	for _, c := range t.If {
		switch {
		case c.Attr != cas.Leased && c.Is == 0:
			ifs = append(ifs, short(c.Key)+" absent")
		default:
			ifs = append(ifs, fmt.Sprintf("%s.%s=%d", short(c.Key), [...]string{"mod", "create", "lease"}[c.Attr], c.Is))
		}
	}
	for _, o := range t.Then {
		switch {
		case o.Delete:
			thens = append(thens, "delete "+short(o.Key))
		default:
			thens = append(thens, fmt.Sprintf("put %s @%d %s", short(o.Key), o.Lease, o.Value))
		}
	}
	return ifs, thens
}
