package machine

import (
	"slices"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

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

// outage has nobody reach the store, for up to three TTLs: because the network is down, while leases end; or because
// the store has no leader, while they don't.
func (w *world) outage() {
	d := w.between(0, 3*w.base.TTL)
	if w.IntN(2) == 0 {
		w.elect(d)
		return
	}
	for _, n := range w.live() {
		n.isolate(d)
	}
}

// elect leaves the store without a leader for a while. The next one gives each lease its full TTL again.
func (w *world) elect(d time.Duration) {
	if w.down {
		return
	}
	w.trace("op", "the store has no leader")
	w.down = true
	for _, n := range w.live() {
		if n.watching && w.IntN(2) == 0 {
			n.breaks("its watch demands a leader")
		}
	}
	w.after(d, w.elected)
}

func (w *world) elected() {
	if !w.down {
		return
	}
	w.trace("op", "the store has a leader")
	w.down = false
	w.store.elect(w.now)
	for _, n := range w.live() {
		n.pump()
	}
}

// compact has the store forget what happened, perhaps under watches that have not seen it.
func (w *world) compact() {
	w.sees()
	w.trace("op", "the store is compacted")
	w.store.compact(w.store.rev - w.Int64N(10))
}

// saveOrRestore takes a backup of the store, or goes back to the one that there is.
func (w *world) saveOrRestore() {
	switch {
	case w.sees().Config.Rev == 0: // without a config there is no group to restore
	case w.backup == nil:
		w.trace("op", "saves the store")
		w.backup = w.store.clone()
	case !w.down:
		w.restore()
	}
}

// restore brings the backup back: revisions that were, and will be again. Whoever followed the store finds out and
// ends. Whoever has seen too little to find out is stopped, and none starts before an operator has raised the lineage
// (docs/operations.md): it could be given an epoch that another has used, and no fence could tell the two apart.
func (w *world) restore() {
	last := w.store.last
	w.store, w.backup, w.judge = w.backup, nil, nil
	w.store.last = last // lease ids are random: none comes twice
	w.store.elect(w.now)
	if w.IntN(2) == 0 {
		w.store.cluster++
	}
	w.trace("op", "the store is restored from a backup: cluster %d, revision %d", w.store.cluster, w.store.rev)
	w.restoring = true
	w.gen++
	w.told = 0
	for l := range last {
		w.checks.ended[l+1] = true
	}
	for _, n := range w.live() {
		if !n.couldTell() {
			n.crash()
			continue
		}
		n.asked = 0
		n.pump()
	}
	w.after(w.between(0, 4*time.Second), w.recover)
}

// couldTell: the node has seen what the restored store can't show, whatever happens in it before it is used again: the ends
// of the leases that it holds.
func (n *simNode) couldTell() bool {
	v := n.m.View()
	return v != nil && (v.Cluster != n.store.cluster || v.Rev > n.store.rev+2*int64(len(n.store.leases))+10)
}

// recover is what an operator does after a restore.
func (w *world) recover() {
	if !w.restoring {
		return
	}
	var ids []string
	for _, n := range slices.Clone(w.nodes) {
		if n.up {
			w.checks.count["restored: stopped by the operator"]++
			n.crash()
		}
		if n.born == w.gen-1 && len(ids) < w.most {
			ids = append(ids, n.id)
		}
	}
	w.store.full = false
	w.raiseLineage(1 + w.IntN(3))
	w.restoring = false
	for _, id := range ids {
		if w.aliveUnder(id) == nil {
			w.start(id)
		}
	}
}

// relieve ends all faults: what still hangs is let go, and somebody eligible is there.
func (w *world) relieve() {
	w.trace("", "no more faults")
	w.recover()
	w.elected()
	w.calm = true
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
