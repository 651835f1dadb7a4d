package machine

import "time"

// rates are the odds of each fault, per occasion, and the weights of the acts. The zero value is a perfect world.
type rates struct {
	slow, lostRequest, lostReply, late, refused       float64 // a request's
	watchBreak, progressLost, partialWatch, lostEvent float64
	startFails, startHangs, stuck                     float64 // a handler's
	returnsEarly, flushFails, flushHangs              float64
	requestHangs, prepareFails, prepareHangs          float64

	drift bool          // clocks run at different paces
	chaos time.Duration // mean time between two acts
	acts  [numActs]float64
}

// swarm draws the rates of a schedule. Half of the faults are left out of each, so that those that hide each
// other come alone as well; and some schedules have three or four kinds only, which come all the more often.
func (w *world) swarm() {
	rate := func(most float64) float64 {
		if w.IntN(2) == 0 {
			return 0
		}
		return most * w.Float64() * w.Float64()
	}
	w.rates = rates{
		slow: rate(0.3), lostRequest: rate(0.2), lostReply: rate(0.3), late: rate(0.2), refused: rate(0.2),
		watchBreak: rate(0.1), progressLost: rate(0.5), partialWatch: rate(0.8),
		startFails: rate(0.7), startHangs: rate(0.3), stuck: rate(0.3),
		returnsEarly: rate(0.3), flushFails: rate(0.3), flushHangs: rate(0.3),
		requestHangs: rate(0.02), prepareFails: rate(0.5), prepareHangs: rate(0.3),
		drift: w.IntN(2) == 0,
		chaos: 50 * time.Millisecond << w.IntN(7),
	}
	if w.IntN(4) == 0 {
		w.rates.lostEvent = 0.05 * w.Float64()
	}
	if few := 3 + w.IntN(2); w.IntN(3) == 0 {
		for range few {
			w.rates.acts[w.IntN(int(numActs))]++
		}
	} else {
		for a := range w.rates.acts {
			w.rates.acts[a] = float64(w.IntN(2)*w.IntN(4)) * acts[a].rarity
		}
	}
	w.rates.acts[actRejoin]++
	w.rates.acts[actForeign]++
	if w.IntN(3) == 0 {
		w.lessor = 20 * time.Millisecond
	}
}

// config draws what a process is.
func (w *world) config() Config {
	c := w.base
	c.Member.Prepares = w.IntN(2) == 0
	c.Member.Weight = 1
	switch w.IntN(8) {
	case 0:
		c.Member.Weight = 2
	case 1:
		c.Member.Weight = w.IntN(2) * 3
	}
	c.Takeover = w.rates.acts[actTakeover] > 0 && w.IntN(2) == 0
	return c
}
