package machine

import (
	"slices"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// xStore is the model store of an explored world: a value, whose slices are never changed in place.
type xStore struct {
	rev     int64
	entries []cas.Entry // in the order of keys
	leases  []xLease    // in the order of grants
	last    cas.LeaseID
	log     []cas.Change
	full    bool
}

type xLease struct {
	id      cas.LeaseID
	ttl     time.Duration
	expires time.Duration
}

func newXStore() xStore { return xStore{rev: 1} }

func (s *xStore) list() cas.Snapshot {
	return cas.Snapshot{Rev: s.rev, Cluster: 1, Entries: s.entries}
}

func (s *xStore) find(key string) (int, bool) {
	return slices.BinarySearchFunc(s.entries, key, func(e cas.Entry, key string) int { return strings.Compare(e.Key, key) })
}

func (s *xStore) get(key string) cas.Entry {
	if i, ok := s.find(key); ok {
		return s.entries[i]
	}
	return cas.Entry{}
}

func (s *xStore) lease(id cas.LeaseID) int {
	return slices.IndexFunc(s.leases, func(l xLease) bool { return l.id == id })
}

// commit checks in etcd's order: the transaction itself, space, conditions, leases. changed sees each event before it shows.
func (s *xStore) commit(t cas.Txn, changed func(before cas.Entry, ev cas.Event)) (int64, error) {
	if s.full && slices.ContainsFunc(t.Then, func(o cas.Op) bool { return !o.Delete }) {
		return 0, cas.ErrNoSpace
	}
	for _, c := range t.If {
		if !c.Holds(s.get(c.Key)) {
			return 0, &cas.ConflictError{Rev: s.rev}
		}
	}
	for _, o := range t.Then {
		if o.Lease != 0 && s.lease(o.Lease) < 0 {
			return 0, cas.ErrLeaseNotFound
		}
	}
	s.apply(t.Then, changed)
	return s.rev, nil
}

func (s *xStore) apply(ops []cas.Op, changed func(before cas.Entry, ev cas.Event)) {
	s.entries = slices.Clone(s.entries)
	var events []cas.Event
	rev := s.rev + 1
	for _, o := range ops {
		at, was := s.find(o.Key)
		if o.Delete && !was {
			continue
		}
		ev := cas.Event{Deleted: o.Delete, Entry: cas.Entry{Key: o.Key, Rev: rev}}
		var before cas.Entry
		if was {
			before = s.entries[at]
		}
		if !o.Delete {
			ev.Value, ev.Lease, ev.Created = o.Value, o.Lease, before.Created
			if !was {
				ev.Created = rev
			}
		}
		changed(before, ev)
		switch {
		case o.Delete:
			s.entries = slices.Delete(s.entries, at, at+1)
		case was:
			s.entries[at] = ev.Entry
		default:
			s.entries = slices.Insert(s.entries, at, ev.Entry)
		}
		events = append(events, ev)
	}
	if len(events) > 0 {
		s.rev = rev
		s.log = append(slices.Clip(s.log), cas.Change{Rev: rev, Events: events})
	}
}

func (s *xStore) grant(now, ttl time.Duration) cas.Lease {
	s.last++
	s.leases = append(slices.Clip(s.leases), xLease{s.last, ttl, now + ttl})
	return cas.Lease{ID: s.last, TTL: ttl, Rev: s.rev}
}

func (s *xStore) renew(now time.Duration, id cas.LeaseID) (cas.Lease, error) {
	i := s.lease(id)
	if i < 0 {
		return cas.Lease{ID: id}, cas.ErrLeaseNotFound
	}
	s.leases = slices.Clone(s.leases)
	s.leases[i].expires = now + s.leases[i].ttl
	return cas.Lease{ID: id, TTL: s.leases[i].ttl, Rev: s.rev}, nil
}

// revoke ends the lease and all that is under it, in one revision.
func (s *xStore) revoke(id cas.LeaseID, changed func(before cas.Entry, ev cas.Event)) error {
	i := s.lease(id)
	if i < 0 {
		return cas.ErrLeaseNotFound
	}
	var ops []cas.Op
	for _, e := range s.entries {
		if e.Lease == id {
			ops = append(ops, cas.Delete(e.Key))
		}
	}
	s.leases = slices.Delete(slices.Clone(s.leases), i, i+1)
	s.apply(ops, changed)
	return nil
}

// since is the first change after rev.
func (s *xStore) since(rev int64) (cas.Change, bool) {
	for _, c := range s.log {
		if c.Rev > rev {
			return c, true
		}
	}
	return cas.Change{}, false
}

// forget drops the log up to rev: nobody needs it any more.
func (s *xStore) forget(rev int64) {
	i := 0
	for i < len(s.log) && s.log[i].Rev <= rev {
		i++
	}
	s.log = s.log[i:]
}
