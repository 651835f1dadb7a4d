package owner

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A call's context is made when it is asked for. Nobody may be able to tell.
func TestCallContextIsMadeLate(t *testing.T) {
	enter := func(t *testing.T, ctx context.Context) (*Tenure, context.Context, func()) {
		t.Helper()
		n, tn := open(t)
		in, exit, err := n.Enter(ctx, "account-00000001")
		if err != nil {
			t.Fatal(err)
		}
		return tn, in, exit
	}
	gone := errors.New("the caller has gone")
	for _, c := range []struct {
		name string
		end  func(tn *Tenure, cancel context.CancelCauseFunc, exit func())
		want func(cause error) bool
	}{
		{"tenure lost", func(tn *Tenure, _ context.CancelCauseFunc, _ func()) { tn.lose("test") }, func(cause error) bool {
			_, ok := errors.AsType[*LostError](cause)
			return ok
		}},
		{"caller gone", func(_ *Tenure, cancel context.CancelCauseFunc, _ func()) { cancel(gone) }, func(cause error) bool {
			return errors.Is(cause, gone)
		}},
		{"exit", func(_ *Tenure, _ context.CancelCauseFunc, exit func()) { exit() }, func(cause error) bool {
			return errors.Is(cause, context.Canceled)
		}},
	} {
		for _, early := range []bool{true, false} {
			outer, cancel := context.WithCancelCause(t.Context())
			tn, ctx, exit := enter(t, outer)
			var derived context.Context
			if early {
				if ctx.Err() != nil {
					t.Errorf("%s: ended before: %v", c.name, ctx.Err())
				}
				var done context.CancelFunc
				derived, done = context.WithCancel(ctx)
				defer done()
			}
			c.end(tn, cancel, exit)
			if early {
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Second):
					t.Errorf("%s: who waits was not told", c.name)
				}
			} else {
				var done context.CancelFunc
				derived, done = context.WithCancel(ctx)
				defer done()
			}
			if !errors.Is(ctx.Err(), context.Canceled) || !c.want(context.Cause(ctx)) {
				t.Errorf("%s, asked for early %v: got %v because of %v", c.name, early, ctx.Err(), context.Cause(ctx))
			}
			if !c.want(context.Cause(derived)) {
				t.Errorf("%s, asked for early %v: what derives from it got %v", c.name, early, context.Cause(derived))
			}
			exit()
			exit()
			if got := tn.gate.inside(); got != 0 {
				t.Errorf("%s: %d inside after exit, want 0", c.name, got)
			}
			cancel(nil)
		}
	}
}

type valueKey struct{}

func TestCallContextHasTheCallersValues(t *testing.T) {
	n, _ := open(t)
	outer, cancel := context.WithTimeout(context.WithValue(t.Context(), valueKey{}, "mine"), time.Hour)
	defer cancel()
	ctx, exit, err := n.Enter(outer, "account-00000001")
	if err != nil {
		t.Fatal(err)
	}
	defer exit()
	if got := ctx.Value(valueKey{}); got != "mine" {
		t.Errorf("value: got %v, want the caller's", got)
	}
	got, ok := ctx.Deadline()
	if want, _ := outer.Deadline(); !ok || !got.Equal(want) {
		t.Errorf("deadline: got %v %v, want %v", got, ok, want)
	}
	if tn, err := From(context.WithValue(ctx, valueKey{}, "inner")); err != nil || tn.token.Epoch != 7 {
		t.Errorf("From below it: got %v %v, want the tenure", tn, err)
	}
}

// A call that nobody asks for its context costs the gate and little more.
func TestEnterAllocations(t *testing.T) {
	n, _ := open(t)
	ctx := t.Context()
	if got := testing.AllocsPerRun(100, func() {
		_, exit, err := n.Enter(ctx, "account-00000001")
		if err != nil {
			t.Fatal(err)
		}
		exit()
	}); got > 2 {
		t.Errorf("Enter and exit allocate %v times, want at most 2", got)
	}
}

func TestEnterShard(t *testing.T) {
	n, tn := open(t)
	ctx, exit, err := n.EnterShard(t.Context(), tn.token.Shard)
	if err != nil {
		t.Fatal(err)
	}
	defer exit()
	if got, err := From(ctx); got != tn {
		t.Errorf("got %v %v, want the shard's tenure", got, err)
	}
	for _, s := range []int{-1, 64} {
		if _, exit, err := n.EnterShard(t.Context(), s); err == nil {
			exit()
			t.Errorf("shard %d of 64: got nil, want an error", s)
		}
	}
	if _, _, err := n.EnterShard(t.Context(), (tn.token.Shard+1)%64); !refused(err) {
		t.Errorf("another's shard: got %v, want a refusal", err)
	}
}

// Inside a call for one shard, through one for another: the tenure in the context is that of the key that was asked for.
func TestFromIsTheCallsOwnTenure(t *testing.T) {
	n, first := open(t)
	second := newTenure(n, first.token)
	second.token.Shard = (first.token.Shard + 1) % 64
	n.station(second.token.Shard).tenure.Store(second)
	second.gate.open()
	ctx := t.Context()
	for i, tn := range []*Tenure{first, second, first} {
		in, exit, err := n.EnterShard(ctx, tn.token.Shard)
		if err != nil {
			t.Fatal(err)
		}
		defer exit()
		if got, err := From(in); got != tn {
			t.Errorf("call %d: got %v %v, want the tenure of shard %d", i, got, err, tn.token.Shard)
		}
		ctx = in
	}
	if got := first.gate.inside(); got != 1 {
		t.Errorf("inside: got %d, want 1: the innermost call is nested in the outermost", got)
	}
}
