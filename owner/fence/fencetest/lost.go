package fencetest

import (
	"context"
	"errors"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

// mostParcels is more than any verb sends, its connection's set-up included.
const mostParcels = 60

// testLostAdd breaks the connection once, at each parcel that a guarded write sends in turn: before the
// server gets it, or after, before the reply is back. Whatever is reported must be so; and where a
// client library tries again by itself, the write must not be there twice.
func testLostAdd(t T, x *fixture) { lostAdd(t, x) }

// testLostCommit: among those losses is the commit's, of which a client can't tell what became.
func testLostCommit(t T, x *fixture) {
	before, after := lostAdd(t, x)
	if !before {
		t.Errorf("no lost request was uncertain: the commit's was not among them")
	}
	if !after {
		t.Errorf("no lost reply was uncertain: the commit's was not among them")
	}
}

// lostAdd reports whether some loss was called uncertain: of a request, so that nothing was applied, and of a
// reply, so that it was.
func lostAdd(t T, x *fixture) (before, after bool) {
	revision := int64(1)
	x.seal(t, Token(revision))
	for _, forward := range []bool{false, true} {
		want := x.balance(t, 1)
		for n := 1; ; n++ {
			if n > mostParcels {
				t.Fatalf("a write takes more than %d parcels", mostParcels)
			}
			cut, err := x.through(t, n, forward, func(ctx context.Context, f Fence) error { return f.Add(ctx, Token(revision), 1, 1) })
			revision++
			x.seal(t, Token(revision)) // waits for what is still under way at the server
			got := x.balance(t, 1)
			switch outcome := cas.OutcomeOf(err); {
			case err == nil && got == want+1:
			case err != nil && outcome == cas.NotApplied && got == want:
			case err != nil && outcome == cas.Uncertain && (got == want || got == want+1):
				wantIs(t, err, cas.ErrUncertain)
				before = before || got == want && !forward
				after = after || got > want && forward
			default:
				t.Errorf("connection lost at parcel %d (forwarded: %t): got %v (%s), but the balance went from %d to %d",
					n, forward, err, outcome, want, got)
			}
			want = got
			if !cut {
				break
			}
		}
	}
	return before, after
}

// testLostSeal does the same to Seal: called again it succeeds, and older owners are out.
func testLostSeal(t T, x *fixture) {
	revision := int64(1)
	x.seal(t, Token(revision))
	for _, forward := range []bool{false, true} {
		for n := 1; ; n++ {
			if n > mostParcels {
				t.Fatalf("Seal takes more than %d parcels", mostParcels)
			}
			old, next := Token(revision), Token(revision+1)
			cut, err := x.through(t, n, forward, func(ctx context.Context, f Fence) error { return f.Seal(ctx, next) })
			if _, fenced := errors.AsType[*fence.FencedError](err); fenced {
				t.Errorf("connection lost at parcel %d (forwarded: %t): %v", n, forward, err)
			}
			x.seal(t, next)
			wantFenced(t, x.add(t, old, 2, 1), old, next)
			if err := x.add(t, next, 3, 1); err != nil {
				t.Errorf("sealed again after a loss at parcel %d (forwarded: %t): %v", n, forward, err)
			}
			revision++
			if !cut {
				break
			}
		}
	}
	x.wantBalance(t, 2, 0)
}

// through runs do on a Fence whose connection breaks at its nth parcel, and reports whether it came to that.
func (x *fixture) through(t T, n int, forward bool, do func(context.Context, Fence) error) (cut bool, err error) {
	t.Helper()
	r := x.fence.(Reopener)
	p, err := startProxy(r.Addr(), n, forward)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer p.close()
	ctx, cancel := context.WithTimeout(t.Context(), x.patience())
	defer cancel()
	f, release := r.Reopen(p.addr())
	defer release()
	err = do(ctx, f)
	return p.cut.Load(), err
}
