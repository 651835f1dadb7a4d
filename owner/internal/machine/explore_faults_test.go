package machine

import "slices"

// faults are all that can go wrong now.
func (w *xWorld) faults(add func(xKind, int, int)) {
	for i, n := range w.nodes {
		add(fPause, i, -1)
		add(fCrash, i, -1)
		if n.paused {
			continue
		}
		w.requestFaults(i, n, add)
		w.handlerFaults(i, n, add)
		if !n.cut {
			add(fCut, i, -1)
		}
		if n.watching && !n.stalled {
			add(fStall, i, -1)
			add(fBreak, i, -1)
		}
		if n.lease != 0 && w.store.lease(n.lease) >= 0 {
			add(fEvict, i, -1)
		}
		if w.store.get(w.scope.keys.Member(n.id)).Rev != 0 {
			add(fErase, i, -1)
		}
		if w.store.get(w.scope.keys.Drain(n.id)).Rev == 0 {
			add(fDrain, i, -1)
		}
		for s := range w.scope.shards {
			add(fPin, i, s)
		}
		if !n.leaving {
			add(fLeave, i, -1)
		}
		if w.scope.takeover && !slices.ContainsFunc(w.nodes, func(o *xNode) bool { return o.id == n.id && o != n }) {
			add(fTakeover, i, -1)
		}
	}
	if !w.store.full {
		add(fFull, -1, -1)
	}
	if w.store.get(w.scope.keys.Config()).Rev != 0 {
		add(fLineage, -1, -1)
	}
	if slices.ContainsFunc(w.store.leases, func(l xLease) bool { return l.expires != w.now+l.ttl }) {
		add(fElection, -1, -1)
	}
}

func (w *xWorld) requestFaults(i int, n *xNode, add func(xKind, int, int)) {
	for k, r := range n.requests {
		if r.slow {
			continue
		}
		switch r.phase {
		case xAsked:
			add(fLoseRequest, i, k)
			add(fLate, i, k)
			if _, ok := r.effect.(Relist); !ok {
				add(fRefuse, i, k)
			}
		case xAnswered:
			add(fLoseReply, i, k)
			add(fSlowReply, i, k)
		}
	}
	if n.plan != nil && !n.planSlow {
		add(fPlanSlow, i, -1)
	}
}

func (w *xWorld) handlerFaults(i int, n *xNode, add func(xKind, int, int)) {
	for k, t := range n.tenures {
		if !t.returned && !t.ready && !t.ended {
			add(fStartFails, i, k)
			add(fBroken, i, k)
			if !t.slowReady {
				add(fSlowReady, i, k)
			}
		}
		if !t.returned && !t.ended && t.open {
			add(fReturnsEarly, i, k)
			add(fGiveUp, i, k)
		}
		if !t.returned && t.ended && !t.slowReturn {
			add(fSlowReturn, i, k)
		}
		if t.closed && !t.drained && !t.slowDrain {
			add(fSlowDrain, i, k)
		}
	}
	for k, p := range n.preps {
		add(fPrepareFails, i, k)
		if !p.slow {
			add(fPrepareSlow, i, k)
		}
	}
}
