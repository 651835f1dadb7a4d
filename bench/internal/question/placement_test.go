package question

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The planner's row is what the table is about: even loads, and no move more than is needed. And the harness can see the
// opposite, or it would prove nothing.
func TestPlacement(t *testing.T) {
	for _, row := range Placement().Rows {
		if row.Ours {
			if got := row.Values["worst_load"]; got > 1.1 {
				t.Errorf("%s: max/mean %g, want at most a shard above the mean", row.Name, got)
			}
			if got := row.Values["moves_33"]; got != 1 {
				t.Errorf("%s: %g times the moves needed, want 1", row.Name, got)
			}
		} else if row.Values["worst_load"] < 1.2 {
			t.Errorf("%s: max/mean %g: is the measure blind?", row.Name, row.Values["worst_load"])
		}
	}
}
