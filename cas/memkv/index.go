package memkv

import (
	"iter"
	"slices"
	"strings"

	"github.com/tenure-go/tenure/cas"
)

// index finds entries by key and by prefix. Most commits change keys that exist, and lists
// are rare, so order is made when a list asks for it: keys created since then wait in
// added, deleted ones stay as absent entries until the next merge.
type index struct {
	items  map[string]*cas.Entry // absent ones (Rev 0) too, until merged
	sorted []*cas.Entry
	added  []*cas.Entry
	absent int
}

func newIndex() index { return index{items: make(map[string]*cas.Entry)} }

// get returns key's entry, absent or not.
func (x *index) get(key string) cas.Entry {
	if e := x.items[key]; e != nil {
		return *e
	}
	return cas.Entry{Key: key}
}

func (x *index) put(e cas.Entry) {
	if p := x.items[e.Key]; p != nil {
		if p.Rev == 0 {
			x.absent--
		}
		*p = e
		return
	}
	p := &e
	x.items[e.Key] = p
	x.added = append(x.added, p)
}

func (x *index) delete(key string) {
	*x.items[key] = cas.Entry{Key: key}
	x.absent++
	if x.absent > 1024 && x.absent > len(x.items)/2 {
		x.merge()
	}
}

// under yields the entries under prefix in the order of keys.
func (x *index) under(prefix string) iter.Seq[*cas.Entry] {
	if len(x.added) > 0 {
		x.merge()
	}
	return func(yield func(*cas.Entry) bool) {
		i, _ := slices.BinarySearchFunc(x.sorted, prefix, func(e *cas.Entry, p string) int {
			return strings.Compare(e.Key, p)
		})
		for _, e := range x.sorted[i:] {
			if !strings.HasPrefix(e.Key, prefix) {
				return
			}
			if e.Rev != 0 && !yield(e) {
				return
			}
		}
	}
}

// merge brings sorted up to date and forgets absent entries.
func (x *index) merge() {
	byKey := func(a, b *cas.Entry) int { return strings.Compare(a.Key, b.Key) }
	slices.SortFunc(x.added, byKey)
	out := make([]*cas.Entry, 0, len(x.items))
	keep := func(e *cas.Entry) {
		if e.Rev == 0 {
			delete(x.items, e.Key)
			return
		}
		out = append(out, e)
	}
	a, b := x.sorted, x.added
	for len(a) > 0 && len(b) > 0 {
		if byKey(a[0], b[0]) < 0 {
			keep(a[0])
			a = a[1:]
		} else {
			keep(b[0])
			b = b[1:]
		}
	}
	for _, e := range a {
		keep(e)
	}
	for _, e := range b {
		keep(e)
	}
	x.sorted, x.added, x.absent = out, nil, 0
}
