package memkv

import (
	"bytes"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
)

func (s *Server) commit(t cas.Txn) (int64, error) {
	if err := t.Validate(); err != nil {
		return 0, err
	}
	if n := size(t); n > s.config.MaxRequest {
		return 0, fmt.Errorf("memkv: request of %d bytes, limit %d: request is too large: %w", n, s.config.MaxRequest, cas.ErrInvalid)
	}
	s.mu.Lock()
	rev, woken, err := s.apply(t)
	s.mu.Unlock()
	if woken != nil {
		close(woken.done)
	}
	return rev, err
}

func size(t cas.Txn) (n int) {
	for _, c := range t.If {
		n += len(c.Key)
	}
	for _, o := range t.Then {
		n += len(o.Key) + len(o.Value)
	}
	return n
}

// apply needs s.mu. The checks come in etcd's order: space, conditions, leases.
func (s *Server) apply(t cas.Txn) (int64, *revision, error) {
	if s.full {
		for _, o := range t.Then {
			if !o.Delete {
				return 0, nil, fmt.Errorf("memkv: put of %q: %w", o.Key, cas.ErrNoSpace)
			}
		}
	}
	for _, c := range t.If {
		if !c.Holds(s.index.get(c.Key)) {
			return 0, nil, s.conflict(t.If)
		}
	}
	for _, o := range t.Then {
		if o.Lease != 0 && s.leases[o.Lease] == nil {
			return 0, nil, fmt.Errorf("memkv: put of %q under lease %x: %w", o.Key, o.Lease, cas.ErrLeaseNotFound)
		}
	}
	return s.change(t.Then)
}

func (s *Server) conflict(conds []cas.Cond) error {
	c := &cas.ConflictError{Rev: s.log.tail().rev}
	seen := make(map[string]struct{}, len(conds))
	for _, cond := range conds {
		if _, ok := seen[cond.Key]; ok {
			continue
		}
		seen[cond.Key] = struct{}{}
		e := s.index.get(cond.Key)
		e.Value = bytes.Clone(e.Value)
		c.Current = append(c.Current, e)
	}
	return c
}

// change needs s.mu. It makes one revision of ops, or none if they change nothing: deleting
// what is absent. The revision returned for closing is the one before.
func (s *Server) change(ops []cas.Op) (int64, *revision, error) {
	tail := s.log.tail()
	r := &revision{
		rev:    tail.rev + 1,
		events: make([]cas.Event, 0, len(ops)),
		before: make([]cas.Entry, 0, len(ops)),
	}
	for _, o := range ops {
		before := s.index.get(o.Key)
		if o.Delete && before.Rev == 0 {
			continue
		}
		after := cas.Entry{Key: o.Key, Rev: r.rev}
		if o.Delete {
			s.index.delete(o.Key)
		} else {
			after.Value = bytes.Clone(o.Value)
			after.Lease = o.Lease
			after.Created = before.Created
			if before.Rev == 0 {
				after.Created = r.rev
			}
			s.index.put(after)
		}
		if before.Lease != after.Lease {
			s.attach(o.Key, before.Lease, after.Lease)
		}
		r.events = append(r.events, cas.Event{Entry: after, Deleted: o.Delete})
		r.before = append(r.before, before)
	}
	if len(r.events) == 0 {
		return tail.rev, nil, nil
	}
	r.at = time.Now()
	r.done = make(chan struct{})
	return r.rev, s.log.append(r, s.config.History), nil
}
