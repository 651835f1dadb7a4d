package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// feed is what has been fetched of one partition and not been processed, during one tenure. The stream puts, the tenure's
// worker looks, and says what is done.
type feed struct {
	partition int32
	from      int64 // where to begin
	epoch     int32 // leader epoch of the record before from, so that a log that was cut is noticed; -1: not known
	limit     int   // bytes from which on the stream pauses the partition

	ready chan struct{} // has a token when there may be something new

	mu     sync.Mutex // guards the fields below
	queue  []*kgo.Record
	bytes  int
	end    int64 // the log's, as of the last fetch; -1: not known
	err    error
	paused bool
}

func newFeed(partition int32, from int64, epoch int32, limit int) *feed {
	return &feed{partition: partition, from: from, epoch: epoch, limit: limit, end: -1, ready: make(chan struct{}, 1)}
}

// put adds what a fetch brought, and reports whether the partition is to be paused.
func (f *feed) put(recs []*kgo.Record, end int64, err error) (pause bool) {
	f.mu.Lock()
	if f.err == nil { // what comes after an error would leave a gap
		if len(f.queue) == 0 {
			f.queue = recs // the client gives each fetch's away
		} else {
			f.queue = append(f.queue, recs...)
		}
		for _, r := range recs {
			f.bytes += size(r)
		}
		f.err = err
	}
	if end >= 0 {
		f.end = end
	}
	if !f.paused && f.bytes >= f.limit {
		f.paused, pause = true, true
	}
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
	return pause
}

// peek returns the first n records, or as many as there are. An error comes once all before it are done.
func (f *feed) peek(n int) ([]*kgo.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		return nil, f.err
	}
	n = min(n, len(f.queue))
	return f.queue[:n:n], nil
}

// done forgets the records before pos, and reports whether a paused partition can be fetched from again.
func (f *feed) done(pos int64) (low bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.queue) && f.queue[n].Offset < pos {
		f.bytes -= size(f.queue[n])
		n++
	}
	f.queue = f.queue[n:]
	if len(f.queue) == 0 {
		f.queue = nil // and with it what was processed
	}
	return f.paused && f.bytes < f.limit/2
}

// len is how many records wait, and whether an error is behind them.
func (f *feed) len() (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue), f.err != nil
}

// resume reports whether the partition was paused and need not be any more.
func (f *feed) resume() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.paused || f.bytes >= f.limit/2 {
		return false
	}
	f.paused = false
	return true
}

// lag is how many records of the log come after next, as far as is known.
func (f *feed) lag(next int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(0, f.end-next)
}

// know tells the feed of the log's end.
func (f *feed) know(end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end = max(f.end, end)
}

// size is what a record takes in memory, roughly.
func size(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value) + 200
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 40
	}
	return n
}
