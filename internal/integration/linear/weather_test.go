package linear

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
)

// round is the beat of a run on memkv.
const round = time.Second

// weather decides what becomes of one client's requests, as a function of a seed.
//
// Time goes in rounds. A request that is sent in one round arrives in a later one, at a moment within
// its first 600 ms that the seed names and that no other client has. Between two requests a client
// only waits at random, as Update does between tries: less than what is left of the round. So
// when each request arrives does not depend on those waits, nor on how goroutines are scheduled, for
// at any moment one client at most has something to do. The same seed gives the same history.
type weather struct {
	id      int
	rng     *rand.Rand
	start   time.Time
	lossy   int           // of 100 requests
	slow    int           // of 100 requests
	refused time.Duration // the round of the latest refusal

	// When the latest request arrived and its reply did: moments that the seed has named.
	arrived, answered time.Duration
}

// now is the beginning of the present round.
func (w *weather) now() time.Duration { return time.Since(w.start).Truncate(round) }

func (w *weather) fate(memkv.Call) memkv.Fate {
	at := w.now() + round + time.Duration(w.rng.IntN(600_000))*time.Microsecond + time.Duration(w.id)
	if w.rng.IntN(100) < w.slow {
		at += time.Duration(1+w.rng.IntN(20)) * round
	}
	sent := time.Since(w.start)
	f := memkv.Fate{Delay: at - sent}
	if w.rng.IntN(100) < w.slow/2 {
		f.Reply = time.Duration(1+w.rng.IntN(3)) * round
	}
	if w.rng.IntN(100) < w.lossy {
		f.Loss = memkv.Loss(1 + w.rng.IntN(3))
		f.Hang = w.rng.IntN(3) == 0
	}
	if f.Loss == memkv.Connection {
		// A refusal is noticed at once, and may end the call. So it happens at moments that the seed has named,
		// and not after a wait; and once a round, for a wait follows.
		if w.refused != w.now() && (sent == w.arrived || sent == w.answered) {
			w.refused = w.now()
			return f
		}
		f.Loss = memkv.Request
	}
	w.arrived, w.answered = at, at+f.Reply
	return f
}

// limit ends a call late in one of the next rounds, at a moment that no other client has.
func (w *weather) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	at := w.now() + time.Duration(2+w.rng.IntN(12))*round + 900*time.Millisecond + time.Duration(w.id)
	return context.WithDeadline(ctx, w.start.Add(at))
}
