package memkv

import (
	"bytes"
	"strings"

	"github.com/tenure-go/tenure/cas"
)

func (s *Server) get(key string) cas.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.index.get(key)
	e.Value = bytes.Clone(e.Value)
	return e
}

func (s *Server) list(prefix string) cas.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := cas.Snapshot{Rev: s.log.tail().rev, Cluster: s.cluster}
	for e := range s.index.under(prefix) {
		c := *e
		c.Value = bytes.Clone(c.Value)
		snap.Entries = append(snap.Entries, c)
	}
	return snap
}

// digest of a past revision is today's state with the changes since then taken back: each
// key that changed counts as what its first change since then replaced.
func (s *Server) digest(prefix string, rev int64) (cas.Digest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rev == 0 {
		rev = s.log.tail().rev
	}
	if err := s.log.check(rev); err != nil {
		return cas.Digest{}, err
	}
	d := cas.Digest{Rev: rev, Cluster: s.cluster}
	count := func(e *cas.Entry) {
		if e.Rev != 0 {
			d.Count++
			d.Highest = max(d.Highest, e.Rev)
		}
	}
	changed := make(map[string]struct{})
	for r := s.log.at(rev).next; r != nil; r = r.next {
		for i := range r.before {
			e := &r.before[i]
			if _, ok := changed[e.Key]; ok || !strings.HasPrefix(e.Key, prefix) {
				continue
			}
			changed[e.Key] = struct{}{}
			count(e)
		}
	}
	for e := range s.index.under(prefix) {
		if _, ok := changed[e.Key]; !ok {
			count(e)
		}
	}
	return d, nil
}
