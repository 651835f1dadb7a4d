package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/tenure-go/tenure/cas"
)

const (
	prefix = "linear/"
	claim  = prefix + "claim" // what guards compare
	finish = prefix + "finish"
)

// change is one revision of one key.
type change struct {
	rev  int64
	cell cell
}

// storeLog is what happened to each key, as a watch without faults has seen it.
type storeLog struct {
	keys   map[string][]change
	claims []int64
	err    error
}

// follow watches s from revision after on until finish is written, and sends the log.
func follow(ctx context.Context, s cas.Store, after int64) <-chan storeLog {
	changes := s.Watch(ctx, prefix, after)
	out := make(chan storeLog, 1)
	go func() {
		l := storeLog{keys: make(map[string][]change)}
		defer func() { out <- l }()
		for c := range changes {
			if c.Err != nil {
				l.err = c.Err
				return
			}
			for _, e := range c.Events {
				switch e.Key {
				case finish:
					return
				case claim:
					l.claims = append(l.claims, e.Rev)
					continue
				}
				var v cell
				if !e.Deleted {
					if err := json.Unmarshal(e.Value, &v); err != nil {
						l.err = errors.Join(l.err, fmt.Errorf("%s at revision %d: %w", e.Key, e.Rev, err))
					}
				}
				l.keys[e.Key] = append(l.keys[e.Key], change{e.Rev, v})
			}
		}
	}()
	return out
}

// at returns what key held at rev, and since when.
func (l storeLog) at(key string, rev int64) (now change) {
	for _, c := range l.keys[key] {
		if c.rev <= rev {
			now = c
		}
	}
	return now
}

// guardAt returns the claim's revision as of rev.
func (l storeLog) guardAt(rev int64) (now int64) {
	for _, r := range l.claims {
		if r <= rev {
			now = r
		}
	}
	return now
}

// applied reports whether o, which changes its key, can have been.
func (l storeLog) applied(o operation) bool {
	changes := l.keys[o.Key]
	for i, c := range changes {
		if o.Verb != remove && c.cell.By == o.ID {
			return true
		}
		// A deletion does not say whose it is, but there is one for each thing deleted.
		if o.Verb == remove && c.cell == o.Seen && i+1 < len(changes) && changes[i+1].cell == (cell{}) {
			return true
		}
	}
	return false
}

// judge compares what clients were told with what happened, and returns each difference.
func (l storeLog) judge(h *history) []string {
	var faults []string
	fault := func(r *record, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s %s on %s: %s", r.Verb, r.ID, r.Key, fmt.Sprintf(format, args...)))
	}
	if l.err != nil {
		faults = append(faults, fmt.Sprintf("watch: %v", l.err))
	}
	applied := make(map[string][]int64)
	for _, changes := range l.keys {
		for _, c := range changes {
			applied[c.cell.By] = append(applied[c.cell.By], c.rev)
		}
	}
	for _, r := range h.records {
		switch r.Verb {
		case get:
			if was := l.at(r.Key, r.rev); r.answer.Outcome == cas.Applied && r.rev > 0 && (was.rev != r.rev || was.cell != r.answer.Cell) {
				fault(r, "read %+v at revision %d, where %+v was written at %d", r.answer.Cell, r.rev, was.cell, was.rev)
			}
			continue
		case remove:
			continue // a deletion does not say whose it is
		}
		revs := applied[r.ID]
		switch n := len(revs); {
		case n > 1:
			fault(r, "applied at %d, told %s", revs, r.answer.Outcome)
		case r.answer.Outcome == cas.Applied && n == 0:
			fault(r, "told applied, and it was not")
		case r.answer.Outcome == cas.NotApplied && n == 1:
			fault(r, "told not applied, and it was, at %d", revs)
		}
		for _, rev := range revs {
			if held := l.guardAt(rev); r.Guard != 0 && held != r.Guard {
				fault(r, "applied at %d under a guard on revision %d, when the claim was at %d", rev, r.Guard, held)
			}
		}
	}
	return faults
}

// write writes without faults.
func write(ctx context.Context, t *testing.T, s cas.KV, key, value string) int64 {
	t.Helper()
	rev, err := s.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Put(key, []byte(value))}})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	return rev
}
