package shard

// table is a seating for some of the members.
type table struct {
	seating
	v       *survey
	members []int // by seat
	at      []int // by member: its seat, or nobody
}

func newTable(v *survey, sits func(member int) bool) *table {
	t := &table{v: v, at: make([]int, len(v.members))}
	t.prefer = func(int) int { return nobody }
	for i, m := range v.members {
		t.at[i] = nobody
		if sits(i) {
			t.at[i] = len(t.members)
			t.members = append(t.members, i)
			t.weight = append(t.weight, int64(m.Weight))
		}
	}
	t.base = make([]int, len(t.members))
	return t
}

func (t *table) names() []string {
	names := make([]string, len(t.members))
	for i, m := range t.members {
		names[i] = t.v.members[m].ID
	}
	return names
}

// seatOf is where a member sits, or nobody.
func (t *table) seatOf(member int) int {
	if member < 0 {
		return nobody
	}
	return t.at[member]
}

// charge counts a shard that isn't to be seated to the load of a member, if that has a seat.
func (t *table) charge(member int) {
	if s := t.seatOf(member); s != nobody {
		t.base[s]++
	}
}

// avoid is the seats that avoid shard s.
func (t *table) avoid(s int) []int {
	var seats []int
	for _, m := range t.v.avoid[s] {
		if a := t.seatOf(m); a != nobody {
			seats = append(seats, a)
		}
	}
	return seats
}

// full: there is no seat for shard s.
func (t *table) full(s int) bool {
	return len(t.members) == 0 || len(t.v.avoid[s]) >= len(t.members) && len(t.avoid(s)) == len(t.members)
}

func (t *table) add(s int) {
	u := unit{shard: s, home: nobody, target: nobody, fixed: t.seatOf(t.v.pinned(s)), avoid: t.avoid(s)}
	if o := t.v.owner[s]; !t.v.avoids(s, o) {
		u.home = t.seatOf(o)
	}
	if m := t.v.target[s]; !t.v.avoids(s, m) && m != t.v.owner[s] {
		u.target = t.seatOf(m)
	}
	if t.units == nil {
		t.units = make([]unit, 0, len(t.v.owner)) // or growing it would be most of a plan's cost
	}
	t.units = append(t.units, u)
}

func (t *table) solve(seat []int) {
	if len(t.units) == 0 {
		return
	}
	t.seating.solve()
	for i, u := range t.units {
		seat[u.shard] = t.members[t.seat[i]]
	}
}
