package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The audit is what everything else rests on, so it is shown each kind of damage.
func TestAudit(t *testing.T) {
	const id = "account"
	entries := func(e ...stored) map[int64]stored {
		m := make(map[int64]stored)
		for i, x := range e {
			x.account = id
			m[int64(i+1)] = x
		}
		return m
	}
	e := func(op string, amount, prev int64) stored { return stored{entry{op: op, amount: amount}, prev} }
	acked := []entry{{"a", id, 10}, {"b", id, 20}}
	for _, c := range []struct {
		name   string
		head   account
		books  map[int64]stored
		want   [2]int // lost, twice
		faults int
	}{
		{"all there", account{1030, 2}, entries(e("a", 10, 0), e("b", 20, 1)), [2]int{0, 0}, 0},
		{"more than was acknowledged", account{1035, 3}, entries(e("a", 10, 0), e("b", 20, 1), e("c", 5, 2)), [2]int{0, 0}, 0},
		{"never written", account{1010, 1}, entries(e("a", 10, 0)), [2]int{1, 0}, 0},
		{"wiped out by a stale balance", account{1007, 3}, entries(e("a", 10, 0), e("b", 20, 1), e("late", 7, 0)), [2]int{2, 0}, 0},
		{"applied twice", account{1040, 3}, entries(e("a", 10, 0), e("b", 20, 1), e("a", 10, 2)), [2]int{0, 1}, 0},
		{"in the books, not in the balance", account{1010, 2}, entries(e("a", 10, 0), e("b", 20, 1)), [2]int{0, 0}, 1},
		{"an entry that is not there", account{1030, 9}, entries(e("a", 10, 0), e("b", 20, 1)), [2]int{2, 0}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := books{heads: map[string]account{id: c.head}, entries: c.books}.audit(acked)
			if diff := cmp.Diff(c.want, [2]int{got.lost, got.twice}); diff != "" {
				t.Errorf("lost and twice: -want +got:\n%s", diff)
			}
			if len(got.faults) != c.faults {
				t.Errorf("faults %q, want %d", got.faults, c.faults)
			}
		})
	}
}
