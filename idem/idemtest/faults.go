package idemtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

// fate is what becomes of a call to the store.
type fate int

const (
	passes      fate = iota
	refused          // not sent: cas.ErrUnavailable
	lostRequest      // not carried out, and the caller can't tell
	lostReply        // carried out, and the caller can't tell
	denied           // not sent, nor will any be: cas.ErrDenied
)

func (f fate) String() string {
	return [...]string{"passes", "refused", "request lost", "reply lost", "denied"}[f]
}

// faulty is a store with faults. fate is asked for each call, counted from 1.
type faulty struct {
	idem.Store
	fate  func(call int) fate
	calls atomic.Int64
}

func (f *faulty) next() fate {
	n := int(f.calls.Add(1))
	if f.fate == nil {
		return passes
	}
	return f.fate(n)
}

var (
	errRefused = fmt.Errorf("idemtest: connection refused: %w", cas.ErrUnavailable)
	errDenied  = fmt.Errorf("idemtest: this process is dead: %w", cas.ErrDenied)
	errLost    = fmt.Errorf("idemtest: connection broke: %w", cas.ErrUncertain)
)

func (f *faulty) Get(ctx context.Context, id string) (idem.Record, error) {
	if f.next() != passes {
		return idem.Record{}, errRefused
	}
	return f.Store.Get(ctx, id)
}

func (f *faulty) Swap(ctx context.Context, id string, rev int64, p idem.Put) (int64, error) {
	switch f.next() {
	case refused:
		return 0, errRefused
	case denied:
		return 0, errDenied
	case lostRequest:
		return 0, errLost
	case lostReply:
		_, err := f.Store.Swap(ctx, id, rev, p)
		return 0, errors.Join(errLost, err)
	}
	return f.Store.Swap(ctx, id, rev, p)
}

func (f *faulty) Extend(ctx context.Context, id string, rev int64, attempt time.Duration) error {
	switch f.next() {
	case refused:
		return errRefused
	case denied:
		return errDenied
	case lostRequest:
		return errLost
	case lostReply:
		_ = f.Store.Extend(ctx, id, rev, attempt)
		return errLost
	}
	return f.Store.Extend(ctx, id, rev, attempt)
}

// at is a fault at one call.
func at(call int, f fate) func(int) fate {
	return func(n int) fate {
		if n == call {
			return f
		}
		return passes
	}
}

// dead is a fault at one call, after which nothing gets through: to the store, the process has crashed.
// It is denied, and not refused, because then nobody waits for a store that comes back.
func dead(call int, f fate) func(int) fate {
	return func(n int) fate {
		switch {
		case n < call:
			return passes
		case n == call:
			return f
		}
		return denied
	}
}
