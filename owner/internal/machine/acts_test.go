package machine

import (
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// swarm draws the rates of a schedule. Half of the faults are left out of each, so that those that hide each
// other come alone as well.
func (w *world) swarm() {
	rate := func(most float64) float64 {
		if w.IntN(2) == 0 {
			return 0
		}
		return most * w.Float64() * w.Float64()
	}
	act := func() float64 { return float64(w.IntN(2) * w.IntN(4)) }
	w.rates = rates{
		slow: rate(0.3), lostRequest: rate(0.2), lostReply: rate(0.3), late: rate(0.2), refused: rate(0.2),
		watchBreak: rate(0.1), progressLost: rate(0.5), partialWatch: rate(0.8),
		startFails: rate(0.7), startHangs: rate(0.3), stuck: rate(0.3),
		returnsEarly: rate(0.3), flushFails: rate(0.3), flushHangs: rate(0.3),
		requestHangs: rate(0.02), prepareFails: rate(0.5), prepareHangs: rate(0.3),
		chaos: 50 * time.Millisecond << w.IntN(7),
		cut:   act(), pause: act(), crash: act(), rejoin: 1 + act(), takeover: act(), duplicate: act() / 4,
		leave: act(), drain: act(), pin: act(), lineage: act() / 4, full: act() / 2, evict: act() / 2, erase: act() / 4,
	}
	if w.IntN(2) == 0 {
		w.rates.drift = 40_000 // of which a lease of 2 s takes 80 ms: well within the margin
	}
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
	c.Takeover = w.rates.takeover > 0 && w.IntN(2) == 0
	return c
}

// act is one thing that happens to the cluster.
func (w *world) act() {
	if w.calm {
		return
	}
	w.after(w.between(0, 2*w.rates.chaos), w.act)
	r := &w.rates
	acts := []struct {
		weight float64
		do     func(n *simNode)
	}{
		{r.cut, (*simNode).isolate},
		{r.pause, (*simNode).suspend},
		{r.crash, (*simNode).crash},
		{r.leave, (*simNode).leave},
		{r.rejoin, func(*simNode) { w.rejoin() }},
		{r.duplicate, func(n *simNode) { w.boot(n.id, w.config()) }},
		{r.evict, func(n *simNode) { w.evict(n.lease) }},
		{r.erase, func(n *simNode) { w.operator("erases "+n.id, cas.Delete(w.keys.Member(n.id))) }},
		{r.drain, func(n *simNode) { w.drain(n.id, w.IntN(2) == 0) }},
		{r.pin, func(n *simNode) { w.pin(w.IntN(w.group.Shards), n.id) }},
		{r.lineage, func(*simNode) { w.raiseLineage() }},
		{r.full, func(*simNode) { w.fill() }},
		{1, func(*simNode) { w.store.foreign() }},
	}
	var sum float64
	for _, a := range acts {
		sum += a.weight
	}
	live := w.live()
	if len(live) == 0 {
		w.rejoin()
		return
	}
	n := live[w.IntN(len(live))]
	pick := w.Float64() * sum
	for _, a := range acts {
		if pick -= a.weight; pick < 0 {
			a.do(n)
			return
		}
	}
}

func (n *simNode) isolate() {
	n.cut = true
	n.trace(n.name, "is cut off the store")
	n.after(n.between(0, 2*n.c.TTL), n.heal)
}

// suspend is SIGSTOP, and SIGCONT after up to two TTLs.
func (n *simNode) suspend() {
	if n.paused {
		return
	}
	n.paused = true
	n.trace(n.name, "is paused")
	n.after(n.between(0, 2*n.c.TTL), n.resume)
}

// rejoin boots a process: in the place of one that is gone, or a new one.
func (w *world) rejoin() {
	if len(w.live()) >= 6 {
		return
	}
	var gone []*simNode
	for _, n := range w.nodes {
		if !n.up && w.aliveUnder(n.id) == nil {
			gone = append(gone, n)
		}
	}
	if len(gone) > 0 && w.IntN(3) > 0 {
		w.boot(gone[w.IntN(len(gone))].id, w.config())
		return
	}
	w.boot(string(rune('a'+w.names%26)), w.config())
}

func (w *world) aliveUnder(id string) *simNode {
	for _, n := range w.nodes {
		if n.up && n.id == id {
			return n
		}
	}
	return nil
}

// evict ends a living node's lease, unseen by it.
func (w *world) evict(lease cas.LeaseID) {
	if w.store.leases[lease] == nil {
		return
	}
	w.trace("op", "lease %d is revoked", lease)
	w.checks.ended[lease] = true
	w.actor = nil
	_ = w.store.revoke("expired", lease)
	w.notify()
}

func (w *world) drain(id string, on bool) {
	if !on {
		w.operator("undrains "+id, cas.Delete(w.keys.Drain(id)))
		return
	}
	w.operator("drains "+id, cas.Put(w.keys.Drain(id), layout.Encode(layout.Drain{Format: 1, Why: "test"})))
}

func (w *world) pin(s int, id string) {
	key := w.keys.Pin(s)
	if w.IntN(3) == 0 {
		w.operator("unpins", cas.Delete(key))
		return
	}
	w.operator("pins to "+id, cas.Put(key, layout.Encode(layout.Pin{Format: 1, Member: id})))
}

func (w *world) raiseLineage() {
	e := w.store.keys[w.keys.Config()]
	if e.Rev == 0 {
		return
	}
	c, _ := layout.Decode[layout.Config](e.Value)
	c.Lineage += 1 + w.IntN(40)
	w.operator("raises the lineage", cas.Put(e.Key, layout.Encode(c)))
}

// fill has the store refuse writes for a while.
func (w *world) fill() {
	if w.store.full {
		return
	}
	w.trace("op", "the store is full")
	w.store.full = true
	w.after(w.between(0, 8*time.Second), func() {
		w.trace("op", "the store has space")
		w.store.full = false
	})
}

// relieve ends all faults: what still hangs is let go, and somebody eligible is there.
func (w *world) relieve() {
	w.calm = true
	w.trace("", "no more faults")
	w.store.full = false
	for _, n := range w.nodes {
		n.heal()
		n.resume()
	}
	for _, k := range append([]string(nil), w.store.sorted...) {
		if kind, _, _ := w.keys.Parse(k); kind == layout.DrainKey && w.IntN(2) == 0 {
			w.operator("undrains", cas.Delete(k))
		}
	}
	// One that nothing was ever said about.
	c := w.base
	c.Member.Weight = 1
	w.boot("zz", c)
}
