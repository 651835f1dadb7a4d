package main

import (
	"sync"
	"sync/atomic"
)

// ledger is what clients were told: the other side of the audit.
type ledger struct {
	calm atomic.Bool  // nothing is broken on purpose now, so no request may fail
	open atomic.Int64 // requests that began while it was calm, and have no answer yet

	mu     sync.Mutex // guards what follows
	acked  []entry
	tries  int // requests that did not succeed, and were sent again
	unsure int // of those, how many may have been applied all the same
	failed int // of those, how many that began while it was calm
	last   error
}

// entry is one acknowledged operation.
type entry struct {
	op      string
	account string
	amount  int64
}

func (l *ledger) acknowledge(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = append(l.acked, e)
}

func (l *ledger) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *ledger) fault(err error, calm bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if !definite(err) {
		l.unsure++
	}
	if calm {
		l.failed++
		l.last = err
	}
}
