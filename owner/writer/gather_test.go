package writer

import (
	"errors"
	"testing"
	"time"
)

// gathering calls gather with a clock of its own. The nth look takes as long as took says, and brings the calls that brings says.
func gathering(t *testing.T, q *queue[int, int], told, most int, took time.Duration, brings func(look int) int) (looks int) {
	t.Helper()
	clock := time.Unix(0, 0)
	look := func() {
		clock = clock.Add(took)
		for range brings(looks) {
			if _, err := q.push(new(call[int, int])); err != nil {
				t.Error(err)
			}
		}
		looks++
	}
	q.gather(told, most, look, func() time.Time { return clock })
	return looks
}

func TestGather(t *testing.T) {
	each := func(n int) func(int) int { return func(int) int { return n } }
	for _, c := range []struct {
		name        string
		queued      int // before
		told, most  int
		took        time.Duration
		brings      func(look int) int
		looks, have int
	}{
		{"at the beginning nobody was told", 0, 0, 256, 0, each(1), 0, 0},
		{"one who was alone", 0, 1, 256, 0, each(0), 1, 0},
		{"one, beside others", 3, 1, 256, 0, each(1), 1, 4},
		{"one, and the batch is full", 6, 1, 6, 0, each(1), 0, 6},
		{"until all are back", 3, 8, 256, 0, each(2), 4, 11},
		{"as long as some come", 0, 3, 256, 0, func(look int) int { return look % 10 / 9 }, 30, 3},
		{"nobody comes", 3, 8, 256, 0, each(0), mostIdle, 3},
		{"some don't come", 0, 8, 256, 0, func(look int) int { return max(0, 3-look) }, 3 + mostIdle, 6},
		{"until the batch is full", 3, 8, 6, 0, each(1), 3, 6},
		{"the batch is full", 6, 8, 6, 0, each(1), 0, 6},
		{"until the queue is full", 98, 8, 256, 0, each(1), 2, 100},
		{"looks that take long", 0, 8, 256, mostGather / 2, each(1), 2, 2},
		{"a look that takes very long", 0, 8, 256, 10 * time.Millisecond, each(1), 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue[int, int](100)
			for range c.queued {
				_, _ = q.push(new(call[int, int]))
			}
			looks := gathering(t, q, c.told, c.most, c.took, c.brings)
			if have, _ := q.length(); looks != c.looks || have != c.have {
				t.Errorf("got %d looks, %d queued, want %d, %d", looks, have, c.looks, c.have)
			}
		})
	}
}

// Nobody comes any more once the queue is closed.
func TestGather_Closed(t *testing.T) {
	q := newQueue[int, int](100)
	looks := gathering(t, q, 8, 256, 0, func(look int) int {
		if look == 2 {
			q.close(errors.New("over"))
		}
		return 0
	})
	if looks != 3 {
		t.Errorf("closed in the third look: got %d looks, want 3", looks)
	}
	for _, told := range []int{1, 8} {
		if looks := gathering(t, q, told, 256, 0, func(int) int { return 0 }); looks != 0 {
			t.Errorf("closed, %d told: got %d looks, want none", told, looks)
		}
	}
}
