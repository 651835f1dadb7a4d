package writer

import "time"

// What gather may spend. A look takes some 0.2 µs if no goroutine can run; a caller takes some 1 µs to come back.
const (
	mostIdle   = 16                     // looks in a row that brought nothing
	mostGather = 200 * time.Microsecond // until the end of a look
)

// gather lets callers who were just told come back with their next commands before a batch is taken. They are about to run, and
// would most often be too late for it by little: then the next batch is of those alone who came while the last one was
// applied, the one after it of the others, and so on, each of half of those who are there and each at the price of a commit.
//
// It waits for nobody. It looks, which is to let goroutines run that can (runtime.Gosched), as long as that brings
// commands, and until as many are there as were told. Callers who are not back at once, since their reply has to go over a network,
// cost mostIdle looks, and one who was alone in the batch a single one, before the applier goes to sleep and has to be
// woken. Where the processors are so busy that a look takes as long as a commit does, there is no second one.
func (q *queue[C, R]) gather(told, most int, look func(), now func() time.Time) {
	n, open := q.length()
	want := min(n+told, most, q.limit)
	if told == 1 {
		if open && n < want {
			look()
		}
		return // a clock would cost as much
	}
	began := now()
	for idle := 0; open && n < want && idle < mostIdle; {
		look()
		had := n
		if n, open = q.length(); n > had {
			idle = 0
		} else {
			idle++
		}
		if now().Sub(began) >= mostGather {
			return
		}
	}
}

// length is how many calls are queued, and whether more may come.
func (q *queue[C, R]) length() (n int, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued.n, q.closed == nil
}
