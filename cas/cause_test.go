package cas_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// strangers are errors of other requests that a context may be ended with, as an errgroup ends its
// context with the error of another goroutine. The conflict speaks of the very keys.
var strangers = map[string]error{
	"conflict": fmt.Errorf("elsewhere: %w", &cas.ConflictError{Rev: 9, Current: []cas.Entry{
		{Key: "acct"}, {Key: cas.ReceiptKey("acct", "op")},
	}}),
	"unavailable": fmt.Errorf("elsewhere: %w", cas.ErrUnavailable),
	"no leader":   cas.ErrNoLeader,
}

// endingWith returns a context that ends in a second, with cause.
func endingWith(t *testing.T, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(time.Second, func() { cancel(cause) })
	t.Cleanup(func() { timer.Stop(); cancel(nil) })
	return ctx
}

// The commit is late, its caller gives up because of somebody else's error, and then it is applied.
func TestUpdateDoesNotTakeTheCauseForAnAnswer(t *testing.T) {
	for name, cause := range strangers {
		for _, receipt := range []string{"", "op"} {
			synctest.Test(t, func(t *testing.T) {
				s := memkv.New()
				defer s.Close()
				s.Intercept(func(c memkv.Call) memkv.Fate {
					if len(c.Txn.Then) > 0 {
						return memkv.Fate{Delay: time.Minute}
					}
					return memkv.Fate{}
				})
				_, err := cas.Update(endingWith(t, cause), s, "acct", add(1), cas.UpdateConfig{Receipt: receipt})
				if !errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain {
					t.Errorf("%s, receipt %q: got error %v, outcome %q", name, receipt, err, cas.OutcomeOf(err))
				}
				if !errors.Is(err, cause) {
					t.Errorf("%s, receipt %q: the cause is not in %v", name, receipt, err)
				}
				time.Sleep(time.Hour) // virtual: it arrives
				if got := balance(t, s); got != 1 {
					t.Errorf("got balance %d, want 1", got)
				}
			})
		}
	}
}

func TestResolveDoesNotTakeTheCauseForAnAnswer(t *testing.T) {
	for name, cause := range strangers {
		for _, late := range []bool{false, true} { // the read, or what closes the receipt
			synctest.Test(t, func(t *testing.T) {
				s := memkv.New()
				defer s.Close()
				s.Intercept(func(c memkv.Call) memkv.Fate {
					if (len(c.Txn.Then) > 0) == late {
						return memkv.Fate{Delay: time.Minute}
					}
					return memkv.Fate{}
				})
				outcome, err := cas.Resolve(endingWith(t, cause), s, "acct", "op")
				if outcome != cas.Uncertain || cas.OutcomeOf(err) != cas.Uncertain || !errors.Is(err, cause) {
					t.Errorf("%s: got %q, error %v, outcome %q", name, outcome, err, cas.OutcomeOf(err))
				}
			})
		}
	}
}

// The first read with a receipt is a transaction that conflicts: nor is the cause that conflict.
func TestUpdateReadDoesNotTakeTheCauseForAnAnswer(t *testing.T) {
	for name, cause := range strangers {
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			s.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Delay: time.Minute} })
			runs := 0
			_, err := cas.Update(endingWith(t, cause), s, "acct", func(*account) error { runs++; return nil }, cas.UpdateConfig{Receipt: "op"})
			if runs != 0 || !errors.Is(err, cause) || cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("%s: got error %v, outcome %q, after %d runs of f, want not applied after none", name, err, cas.OutcomeOf(err), runs)
			}
		})
	}
}

// answering is a store whose commits end with what it is given.
type answering struct {
	cas.KV
	answers []error
	sent    int
}

func (a *answering) Commit(ctx context.Context, t cas.Txn) (int64, error) {
	if len(t.Then) == 0 || a.sent >= len(a.answers) {
		return a.KV.Commit(ctx, t)
	}
	a.sent++
	return 0, a.answers[a.sent-1]
}

// A store in front of another may wrap a conflict. One that says nothing of the keys asked for
// is not the commit's.
func TestUpdateRecognisesItsOwnConflict(t *testing.T) {
	own := &cas.ConflictError{Rev: 5, Current: []cas.Entry{{Key: "acct"}, {Key: cas.ReceiptKey("acct", "op")}}}
	other := &cas.ConflictError{Rev: 5, Current: []cas.Entry{{Key: "other"}}}
	for name, c := range map[string]struct {
		answer error
		sent   int // commits until Update ended
		want   cas.Outcome
	}{
		"its own":                 {own, 1, cas.Applied},
		"wrapped":                 {fmt.Errorf("traced: %w", own), 1, cas.Applied},
		"of another key":          {other, 1, cas.NotApplied},
		"one of several":          {errors.Join(own, cas.ErrDenied), 1, cas.NotApplied},
		"nil":                     {(*cas.ConflictError)(nil), 1, cas.Uncertain},
		"of an uncertain outcome": {settled{cas.Uncertain, own}, 1, cas.Uncertain},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			a := &answering{KV: s, answers: []error{c.answer}}
			_, err := cas.Update(t.Context(), a, "acct", add(1), cas.UpdateConfig{})
			if got := cas.OutcomeOf(err); got != c.want || a.sent != c.sent {
				t.Errorf("%s: got error %v, outcome %q, want %q", name, err, got, c.want)
			}
			if got, want := balance(t, s), 0; c.want != cas.Applied && got != want {
				t.Errorf("%s: got balance %d, want %d", name, got, want)
			}
		})
	}
}

// What the receipt says was stored must not be mixed with what f made of the value in a try
// that was not applied.
func TestUpdateReturnsWhatTheReceiptSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		put(t, s, `{"balance":1}`)
		other := s.Server().Client()
		defer other.Close()
		op := cas.UpdateConfig{Receipt: "op"}
		var stored account
		got, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
			// Meanwhile another process applies the operation.
			var err error
			if stored, err = cas.Update(t.Context(), other, "acct", add(1), op); err != nil {
				t.Error(err)
			}
			a.Balance += 100
			a.Log = []string{"mine"}
			return nil
		}, op)
		if err != nil || got.Balance != 2 || len(got.Log) != 0 || stored.Balance != 2 {
			t.Errorf("got %+v, %v, want %+v, which is what was stored", got, err, stored)
		}
	})
}
