package kafka

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	firstWait = 100 * time.Millisecond // before the second try of a record that fails alone
	lastWait  = 30 * time.Second       // between tries of a shard that stands still

	// mostDead in a row are taken for a fault of what is written to: then the shard stops rather than put the whole topic away.
	mostDead = 3

	// alone is how long batches must have failed before a record is given up on, if nothing has succeeded here meanwhile: when a
	// database is down, every record fails.
	alone = time.Minute
)

// trouble is what a shard remembers of batches that failed, so that the next tries are smaller and the bad record stands alone
// in the end. It outlives a tenure: what ended one by an uncertain error was not applied after all if the next one is told
// the same position. The zero value knows of none. One goroutine at a time uses it.
type trouble struct {
	at    int64     // first offset of the batch that failed last
	until int64     // offset after the first batch that failed
	size  int       // records to try at once before until
	tries int       // that failed, of the same batch
	since time.Time // when it all began
	waits int       // for back-off
	dead  int       // records given up on since the last success
	err   error     // the last failure, if it ended the tenure: whether it was applied, the next position says

	// cut: the log was seen to end below this position. When it has grown past it nobody could tell that what is new in between was never
	// consumed, so only an operator has the shard go on, who sets past.
	cut  *OffsetError
	past int64 // the position from which an operator wants to go on, whatever comes before it
}

// lost is why a shard at pos stays where it is, though it could read on by now.
func (t *trouble) lost(pos int64) error {
	if t.cut == nil || t.cut.Position != pos {
		return nil
	}
	return t.cut
}

// ends notes that the log ends below the position.
func (t *trouble) ends(e *OffsetError) {
	if e.First <= e.Position && t.past != e.Position {
		t.cut = e
	}
}

// verdict is the error of a record that ended tenures, one after another, and was not applied by the last of them either: its turn
// has come again. It says so once, since what follows from it may be to try again.
func (t *trouble) verdict(pos int64, tries int) error {
	err := t.err
	t.err = nil
	if t.size != 1 || t.at != pos || t.tries < tries {
		return nil
	}
	return err
}

// limit is how many records to try at once from pos on.
func (t *trouble) limit(pos int64, most int) int {
	if t.size > 0 && pos < t.until {
		return min(t.size, most)
	}
	return most
}

// failed notes that recs were not applied, and reports whether that is one record that has failed often enough.
func (t *trouble) failed(recs []*kgo.Record, tries int, now time.Time) (enough bool) {
	first, n := recs[0].Offset, len(recs)
	switch {
	case t.size == 0 || first >= t.until: // whole, once more
		*t = trouble{at: first, until: Next(recs), size: n, since: now, dead: t.dead}
	case n > 1: // in halves, at once
		t.at, t.size, t.tries, t.waits = first, (n+1)/2, 0, 0
		return false
	case t.at != first || t.size != 1 || t.tries == 0:
		t.at, t.size, t.tries, t.waits = first, 1, 0, 0
	}
	t.tries++
	t.waits++
	return n == 1 && t.tries >= tries
}

// wait is how long to wait before the next try: not at all before a smaller one.
func (t *trouble) wait() time.Duration {
	if t.waits == 0 {
		return 0
	}
	return backoff(t.waits)
}

// backoff doubles from firstWait to lastWait, with up to half of it taken off at random: shards that have failed together don't come
// back together.
func backoff(n int) time.Duration {
	d := lastWait
	if n < 10 {
		d = min(lastWait, firstWait<<(n-1))
	}
	return d - rand.N(d/2)
}

// succeeded notes that all before pos is applied. Batches grow again by doubling: what failed may have been the resource.
func (t *trouble) succeeded(pos int64) {
	if pos >= t.until {
		*t = trouble{}
		return
	}
	t.size, t.tries, t.waits, t.dead = 2*t.size, 0, 0, 0
}

// gaveUp notes that a record was put away, and pos is the next.
func (t *trouble) gaveUp(pos int64) {
	dead := t.dead + 1
	t.succeeded(pos)
	t.dead = dead
}

// mayGiveUp reports whether a record that has failed often enough may be put away. lastGood is when anything last succeeded in this
// process.
func (t *trouble) mayGiveUp(now, lastGood time.Time) bool {
	if t.dead >= mostDead {
		return false
	}
	return lastGood.After(t.since) || now.Sub(t.since) >= alone
}
