package shard

// arcs are those out of a class: the ways its units can go, -1 where there is none.
type arcs struct{ home, target, away int32 }

// flow finds how many units of each class go where.
//
// The nodes: source; classes; groups; seats; upper, where the seats meet that go above their floor;
// sink. A unit away from home and target costs the same wherever it goes, so it goes through its
// group, and classes times seats arcs are saved.
func (p *seating) flow() {
	seats, total := len(p.weight), len(p.units)
	firstGroup := int32(1 + len(p.classes))
	firstSeat := firstGroup + int32(len(p.groups))
	upper := firstSeat + int32(seats)
	sink := upper + 1
	live := 0
	for _, g := range p.groups {
		live += min(g.count, 1)
	}
	f := newNetwork(int(sink)+1, 4*len(p.classes)+(live+3)*seats+2)

	p.seatArcs(f, firstSeat, upper, sink)
	fromClass := make([]arcs, len(p.classes))
	for k, c := range p.classes {
		f.arc(0, int32(1+k), len(c.units), 0)
		fromClass[k] = c.arcs(f, int32(1+k), firstGroup, firstSeat)
	}
	fromGroup := make([][]int32, len(p.groups)) // by seat
	for g, gr := range p.groups {
		if gr.count == 0 {
			continue
		}
		fromGroup[g] = make([]int32, seats)
		for i := range seats {
			if fromGroup[g][i] = -1; !has(gr.avoid, i) {
				fromGroup[g][i] = f.arc(firstGroup+int32(g), firstSeat+int32(i), total, 0)
			}
		}
	}
	f.solve(0, sink)

	for k, a := range fromClass {
		c := &p.classes[k]
		c.atHome, c.atTarget, c.away = f.flow(a.home), f.flow(a.target), f.flow(a.away)
	}
	for g, to := range fromGroup {
		for _, a := range to {
			p.groups[g].room = append(p.groups[g].room, f.flow(a))
		}
	}
}

// seatArcs lets seats take what their quotas allow, and more at costOver.
func (p *seating) seatArcs(f *network, firstSeat, upper, sink int32) {
	lo := p.load()
	for i := range p.weight {
		n := firstSeat + int32(i)
		f.arc(n, sink, p.q.floor[i]-lo[i], 0)
		f.arc(n, upper, p.q.ceil[i]-p.q.floor[i], 0)
		f.arc(n, upper, len(p.units), costOver)
	}
	// What goes above the floors beyond spare is missing below some floor.
	f.arc(upper, sink, p.q.spare, 0)
	f.arc(upper, sink, len(p.units), costOver)
}

func (c class) arcs(f *network, node, firstGroup, firstSeat int32) arcs {
	a, size := arcs{home: -1, target: -1}, len(c.units)
	var cancel, move int64
	if c.target != nobody {
		cancel = costCancel
	}
	if c.home != nobody {
		move = costMove
		a.home = f.arc(node, firstSeat+int32(c.home), size, cancel)
	}
	if c.target != nobody {
		a.target = f.arc(node, firstSeat+int32(c.target), size, move)
	}
	a.away = f.arc(node, firstGroup+int32(c.group), size, move+cancel)
	return a
}
