package idem_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

// A record must not be forgotten while its operation runs: the key would be as new, and somebody would run it
// a second time beside the first.
func TestNothingIsForgottenWhileItRuns(t *testing.T) {
	for name, c := range map[string]idem.Config{
		"longer than it is kept":        {Attempt: 3 * time.Second, Keep: 30 * time.Second, Tombstone: 30 * time.Second},
		"kept for less than an attempt": {Attempt: time.Minute, Keep: time.Second, Tombstone: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, c)
				q := idem.Request{Scope: "a", Key: "k"}
				got, err := idem.Do(t.Context(), p.ea, q, func(ctx context.Context, op *idem.Op) (int, error) {
					if _, err := idem.Step(ctx, op, "first", func(context.Context, string) (int, error) { return 1, nil }); err != nil {
						return 0, err
					}
					for range 20 {
						time.Sleep(10 * time.Second)
						_, err := idem.Do(t.Context(), p.eb, q, func(context.Context, *idem.Op) (int, error) { return 2, nil })
						if _, busy := errors.AsType[*idem.InProgressError](err); !busy {
							t.Fatalf("another try meanwhile: got %v, want an InProgressError", err)
						}
					}
					return idem.Step(ctx, op, "first", func(context.Context, string) (int, error) { return 3, nil })
				})
				if got != 1 || err != nil {
					t.Errorf("got %d, %v, want 1", got, err)
				}
			})
		})
	}
}

// A transaction that is open for long holds the record's turn, so that nobody can write it anew: it ends before the record is forgotten.
func TestNothingIsForgottenWhileATransactionRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, idem.Config{Attempt: 3 * time.Second, Keep: 30 * time.Second, Tombstone: 30 * time.Second})
		q := idem.Request{Scope: "a", Key: "k"}
		begun := time.Now()
		var inside context.Context
		commit := func(ctx context.Context, x idem.Txn) (int64, error) {
			inside = ctx
			put, err := x.Run()
			if err != nil {
				return 0, idem.Undone(err)
			}
			return p.ea.Store().Swap(ctx, x.ID, x.Rev, put)
		}
		_, err := idem.Do(t.Context(), p.ea, q, func(ctx context.Context, op *idem.Op) (int, error) {
			return idem.StepIn(ctx, op, "book", false, commit, func() (int, error) {
				for {
					select {
					case <-inside.Done():
						return 0, inside.Err() // as a statement does
					case <-time.After(time.Second):
					}
					_, err := idem.Do(t.Context(), p.eb, q, func(context.Context, *idem.Op) (int, error) { return 2, nil })
					if _, busy := errors.AsType[*idem.InProgressError](err); !busy {
						t.Fatalf("another try after %v: got %v, want an InProgressError", time.Since(begun), err)
					}
				}
			})
		})
		if took := time.Since(begun); took < 45*time.Second || took > time.Minute {
			t.Errorf("it ended after %v, want nearly as long as the record is kept, which is a minute", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Config.Keep") || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v (%s), want it to say why, not applied", err, cas.OutcomeOf(err))
		}
		got, err := idem.Do(t.Context(), p.eb, q, func(context.Context, *idem.Op) (int, error) { return 2, nil })
		if got != 2 || err != nil {
			t.Errorf("afterwards: got %d, %v, want another try to run", got, err)
		}
	})
}
