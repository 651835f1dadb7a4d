package kafka

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenure-go/tenure/cas"
)

// Half a shard is not served: when one part ends, the others are ended, and waited for. Nobody else would catch its panic.
func TestTogether_EndsAllWhenOneEnds(t *testing.T) {
	broken := errors.New("broken")
	for what, tc := range map[string]struct {
		ends func() error
		want string
	}{
		"fails":                {func() error { return broken }, "broken"},
		"panics":               {func() error { panic("boom") }, "boom"},
		"leaves its goroutine": {func() error { runtime.Goexit(); return nil }, "Goexit"},
	} {
		for which := range 3 {
			synctest.Test(t, func(t *testing.T) {
				ended := make([]bool, 3)
				err := together(t.Context(), 3, func(ctx context.Context, i int) error {
					if i == which {
						return tc.ends()
					}
					<-ctx.Done()
					ended[i] = true
					return nil
				})
				if err == nil || !strings.Contains(err.Error(), tc.want) || cas.OutcomeOf(err) != cas.Uncertain {
					t.Errorf("part %d %s: got %v (%s), want an error that says %q", which, what, err, cas.OutcomeOf(err), tc.want)
				}
				for i := range ended {
					if i != which && !ended[i] {
						t.Errorf("part %d %s: part %d was not waited for", which, what, i)
					}
				}
			})
		}
	}
	if err := together(t.Context(), 2, func(context.Context, int) error { return nil }); err != nil {
		t.Errorf("all end well: got %v, want nil", err)
	}
	if err := Together()(t.Context(), nil); cas.OutcomeOf(err) != cas.NotApplied || err == nil {
		t.Errorf("of no Consumer: got %v, want a refusal", err)
	}
}
