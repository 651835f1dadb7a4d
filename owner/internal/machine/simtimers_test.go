package machine

import "time"

// timers is a heap. container/heap boxes what goes in and out, which was a tenth of a schedule's time.
type timers []timer

type timer struct {
	at  time.Duration
	seq int
	fn  func()
}

func (q timers) before(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}

func (q *timers) push(t timer) {
	*q = append(*q, t)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// pop takes the first out. There has to be one.
func (q *timers) pop() timer {
	h := *q
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], timer{}
	h = h[:last]
	*q = h
	for i := 0; ; {
		least := i
		for _, down := range [...]int{2*i + 1, 2*i + 2} {
			if down < len(h) && h.before(down, least) {
				least = down
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
