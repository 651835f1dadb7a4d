package idem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
