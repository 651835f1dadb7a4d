package shard

// pick says which units of a class are the ones that go where the flow wants so many of them:
// first those that the ring puts there.
//
// A unit never goes home through its group: were there room, the flow would have used the
// cheaper arc. The same holds for its target.
func (p *seating) pick() {
	for k := range p.classes {
		c := &p.classes[k]
		room := p.groups[c.group].room
		for _, i := range c.units {
			if c.away == 0 {
				break
			}
			if r := p.prefer(p.units[i].shard); r != nobody && room[r] > 0 {
				p.seat[i] = r
				room[r]--
				c.away--
			}
		}
	}
	next := make([]int, len(p.groups)) // by group: no room below this seat
	for k := range p.classes {
		c := &p.classes[k]
		if c.away > 0 && c.atHome+c.atTarget > 0 || c.atHome > 0 && c.atTarget > 0 {
			p.keepPreferred(c)
		}
		for _, i := range c.units {
			switch {
			case p.seat[i] != nobody:
			case c.away > 0:
				room := p.groups[c.group].room
				for room[next[c.group]] == 0 {
					next[c.group]++
				}
				p.seat[i] = next[c.group]
				room[next[c.group]]--
				c.away--
			case c.atTarget > 0:
				p.seat[i] = c.target
				c.atTarget--
			default:
				p.seat[i] = c.home
			}
		}
	}
}

// keepPreferred seats those units of c at home or target that the ring puts there.
func (p *seating) keepPreferred(c *class) {
	for _, i := range c.units {
		if p.seat[i] != nobody {
			continue
		}
		switch r := p.prefer(p.units[i].shard); {
		case r == nobody:
		case r == c.home && c.atHome > 0:
			p.seat[i] = r
			c.atHome--
		case r == c.target && c.atTarget > 0:
			p.seat[i] = r
			c.atTarget--
		}
	}
}

// shift lets the ring choose who gets the spare shards: a unit that comes to a seat at its ceil goes
// to the ring's choice instead, if that is at its floor. Neither cost nor quotas change by it.
func (p *seating) shift() {
	load := p.load()
	for _, c := range p.classes {
		avoid := p.groups[c.group].avoid
		for _, i := range c.units {
			s := p.seat[i]
			if s == c.home || s == c.target || load[s] != p.q.ceil[s] || load[s] == p.q.floor[s] {
				continue
			}
			r := p.prefer(p.units[i].shard)
			if r == nobody || load[r] != p.q.floor[r] || load[r] == p.q.ceil[r] || has(avoid, r) {
				continue
			}
			p.seat[i] = r
			load[s]--
			load[r]++
		}
	}
}
