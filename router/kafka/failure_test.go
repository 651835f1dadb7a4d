package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// That the log has lost its end is remembered however it is found out: by the leader's epoch, before the log has grown again; or by an offset that is
// out of range, also if the end can't be asked for then, or lies past the position by then.
func TestFault_RemembersThatTheLogHasLostItsEnd(t *testing.T) {
	w := &worker{consumer: &Consumer{topic: "orders"}, pos: 15, trouble: new(trouble)}
	err := w.fault(t.Context(), &kgo.ErrDataLoss{Topic: "orders", ConsumedTo: 15, ResetTo: 10})
	want := OffsetError{Topic: "orders", Position: 15, First: -1, End: 10}
	if got, ok := errors.AsType[*OffsetError](err); !ok || *got != want {
		t.Errorf("fault: got %v, want %v", err, &want)
	}
	if got, ok := errors.AsType[*OffsetError](w.trouble.lost(15)); !ok || *got != want {
		t.Errorf("at 15 afterwards: got %v, want %v", got, &want)
	}

	for _, tc := range []struct {
		what       string
		first, end int64
		cut        bool
	}{
		{"the log ends below", 0, 10, true},
		{"nothing can be asked", -1, -1, true},
		{"the end can't be asked", 0, -1, true},
		{"it has grown meanwhile", 0, 20, true},
		{"retention has deleted", 16, 20, false},
		{"retention has deleted all", 20, 20, false},
	} {
		tr := new(trouble)
		tr.ends(&OffsetError{Position: 15, First: tc.first, End: tc.end})
		if got := tr.lost(15); (got != nil) != tc.cut {
			t.Errorf("%s: at the same position: got %v, want an error: %t", tc.what, got, tc.cut)
		}
		if got := tr.lost(16); got != nil {
			t.Errorf("%s: at another position: got %v, want nil", tc.what, got)
		}
		tr = &trouble{past: 15}
		tr.ends(&OffsetError{Position: 15, First: tc.first, End: tc.end})
		if got := tr.lost(15); got != nil {
			t.Errorf("%s, after an operator has said to go on: got %v, want nil", tc.what, got)
		}
	}
}
