package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// act is a kind of thing that happens to a cluster.
type act int

// The acts: to a process, to the planner's, to many processes, by an operator, to the store.
const (
	actCut act = iota
	actStop
	actSleep
	actStall
	actSkew
	actCrash
	actLeave
	actRejoin
	actTakeover // crash, and its successor may take the id over
	actDuplicate
	actEvict
	actStrikePlanner
	actRollingRestart
	actCrashLoop
	actErase
	actDetach
	actDrain
	actPin
	actLineage
	actStray
	actFill
	actOutage
	actElect
	actCompact
	actRestore
	actForeign
	numActs
)

// acts are how each kind is called, and how often it comes against the common ones.
var acts = [numActs]struct {
	name   string
	rarity float64
}{
	actCut:            {"cut off", 1},
	actStop:           {"stopped", 1},
	actSleep:          {"suspended", 1},
	actStall:          {"halted", 0.3},
	actSkew:           {"clock drifts", 0.5},
	actCrash:          {"crash", 1},
	actLeave:          {"leave", 1},
	actRejoin:         {"boot", 1},
	actTakeover:       {"crash and takeover", 1},
	actDuplicate:      {"second process under one id", 0.25},
	actEvict:          {"lease revoked", 0.5},
	actStrikePlanner:  {"planner struck", 1},
	actRollingRestart: {"rolling restart", 0.3},
	actCrashLoop:      {"crash loop", 0.3},
	actErase:          {"member record erased", 0.25},
	actDetach:         {"member record detached", 0.25},
	actDrain:          {"drain", 1},
	actPin:            {"pin", 1},
	actLineage:        {"lineage raised", 0.25},
	actStray:          {"stray claim", 0.5},
	actFill:           {"store full", 0.5},
	actOutage:         {"outage", 0.3},
	actElect:          {"election", 0.5},
	actCompact:        {"compaction", 1},
	actRestore:        {"backup or restore", 0.1},
	actForeign:        {"foreign key", 1},
}

// act is one thing that happens to the cluster.
func (w *world) act() {
	if w.calm {
		return
	}
	w.after(w.between(0, 2*w.rates.chaos), w.act)
	if w.restoring {
		return // operators have their hands full
	}
	live := w.live()
	if len(live) == 0 {
		w.rejoin()
		return
	}
	n := live[w.IntN(len(live))]
	a := w.draw()
	w.acted |= 1 << a
	w.checks.count["act: "+acts[a].name]++
	switch a {
	case actCut:
		n.isolate(n.between(0, 2*n.c.TTL))
	case actStop:
		n.halt(stopped)
	case actSleep:
		n.halt(suspended)
	case actStall:
		n.halt(halted)
	case actSkew:
		n.skew()
	case actCrash:
		n.crash()
	case actLeave:
		n.leave()
	case actRejoin:
		w.rejoin()
	case actTakeover:
		n.crash()
		w.start(n.id)
	case actDuplicate:
		w.start(n.id)
	case actEvict:
		w.evict(n.lease)
	case actStrikePlanner:
		w.strikePlanner(1 + w.IntN(3))
	case actRollingRestart:
		w.rollingRestart()
	case actCrashLoop:
		w.crashLoop(n.id, 2+w.IntN(6))
	case actErase:
		w.operator("erases "+n.id, cas.Delete(w.keys.Member(n.id)))
	case actDetach:
		w.detach(n.id)
	case actDrain:
		w.drain(n.id, w.IntN(2) == 0)
	case actPin:
		w.pin(w.IntN(w.group.Shards), n.id)
	case actLineage:
		w.raiseLineage(1 + w.IntN(40))
	case actStray:
		w.stray(w.IntN(w.group.Shards))
	case actFill:
		w.fill()
	case actOutage:
		w.outage()
	case actElect:
		w.elect(w.between(0, time.Second))
	case actCompact:
		w.compact()
	case actRestore:
		w.saveOrRestore()
	default:
		w.store.foreign()
	}
}

// draw picks an act by the weights.
func (w *world) draw() act {
	var sum float64
	for _, weight := range w.rates.acts {
		sum += weight
	}
	pick := w.Float64() * sum
	for a, weight := range w.rates.acts {
		if pick -= weight; pick < 0 {
			return act(a)
		}
	}
	return actForeign
}

func (n *simNode) isolate(d time.Duration) {
	n.cut = true
	n.trace(n.name, "is cut off the store")
	n.after(d, n.heal)
}

// start boots a process, once processes may start.
func (w *world) start(id string) {
	if w.restoring {
		w.after(100*time.Millisecond, func() { w.start(id) })
		return
	}
	w.boot(id, w.config())
}

// rejoin boots a process: in the place of one that is gone, or a new one.
func (w *world) rejoin() {
	if len(w.live()) >= w.most || w.restoring {
		return
	}
	var gone []*simNode
	for _, n := range w.nodes {
		if !n.up && w.aliveUnder(n.id) == nil {
			gone = append(gone, n)
		}
	}
	if len(gone) > 0 && w.IntN(3) > 0 {
		w.start(gone[w.IntN(len(gone))].id)
		return
	}
	w.start(w.fresh())
}

// fresh is an id that no process had, as a rule.
func (w *world) fresh() string {
	letter := string(rune('a' + w.names%26))
	if w.most < 26 {
		return letter
	}
	return fmt.Sprintf("%s%d", letter, w.names/26)
}

func (w *world) aliveUnder(id string) *simNode {
	i := slices.IndexFunc(w.nodes, func(n *simNode) bool { return n.up && n.id == id })
	if i < 0 {
		return nil
	}
	return w.nodes[i]
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

// raiseLineage raises it above every one that was ever in force.
func (w *world) raiseLineage(by int) {
	e := w.store.keys[w.keys.Config()]
	if e.Rev == 0 {
		return
	}
	c, _ := layout.Decode[layout.Config](e.Value)
	w.lineage = max(w.lineage, c.Lineage) + by
	c.Lineage = w.lineage
	w.operator("raises the lineage", cas.Put(e.Key, layout.Encode(c)))
}

// detach puts a member's record as it is, which detaches it from the member's lease: an operator's mistake.
func (w *world) detach(id string) {
	if e, ok := w.store.keys[w.keys.Member(id)]; ok {
		w.operator("detaches "+id, cas.Put(e.Key, e.Value))
	}
}

// stray claims a shard under a lease that is no member's, or under none: another program's doing. If somebody owned it, he
// can't know before he sees it.
func (w *world) stray(s int) {
	var lease cas.LeaseID
	if w.IntN(2) == 0 {
		lease = w.store.grant(w.now, w.between(0, 3*w.base.TTL)).ID // it may end just when its claim is reaped
	}
	v := w.sees()
	if v.Config.Rev == 0 {
		return
	}
	if old := v.Claims[s].Rev; old != 0 {
		w.checks.robbed[s] = max(w.checks.robbed[s], w.checks.epoch(old))
	}
	w.operator(fmt.Sprintf("claims shard %d for lease %d", s, lease), cas.PutLeased(w.keys.Claim(s), []byte(`{"format":1,"member":"?"}`), lease))
}
