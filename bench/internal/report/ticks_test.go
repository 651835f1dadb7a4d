package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// However short the axis, a reader can tell the scale from more than one label.
func TestDecades(t *testing.T) {
	for _, test := range []struct {
		least, most float64
		want        []string
	}{
		{1500, 9000, []string{"2,000", "5,000"}},
		{30, 600, []string{"50", "100", "200", "500"}},
		{3, 50000, []string{"10", "100", "1,000", "10,000"}},
		{0.56, 1.2, []string{"0.6", "0.7", "0.8", "0.9", "1"}},
		{0, 1, nil},
	} {
		var got []string
		for _, tick := range (decades{}).Ticks(test.least, test.most) {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%g to %g (-want +got):\n%s", test.least, test.most, diff)
		}
	}
}
