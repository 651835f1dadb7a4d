package shard

// network is a flow network with costs. Arc 2k and arc 2k+1 are each other's reverse; room is what
// an arc can still take, so the room of a reverse is the flow on its arc.
type network struct {
	first []int32 // by node: its newest arc, or -1
	next  []int32 // by arc: the next of the same node
	to    []int32
	room  []int32
	cost  []int64

	dist  []int64 // by node: cost of the cheapest way from the source
	level []int32 // by node: arcs from the source along cheapest ways
	turn  []int32 // by node: the arc to try next
	queue []int32
}

const unreached = int64(1) << 62

func newNetwork(nodes, arcs int) *network {
	f := &network{
		first: make([]int32, nodes),
		next:  make([]int32, 0, 2*arcs),
		to:    make([]int32, 0, 2*arcs),
		room:  make([]int32, 0, 2*arcs),
		cost:  make([]int64, 0, 2*arcs),
		dist:  make([]int64, nodes),
		level: make([]int32, nodes),
		turn:  make([]int32, nodes),
	}
	for i := range f.first {
		f.first[i] = -1
	}
	return f
}

// arc adds one from u to v and returns its number.
func (f *network) arc(u, v int32, room int, cost int64) int32 {
	a := int32(len(f.to))
	f.to = append(f.to, v, u)
	f.room = append(f.room, int32(room), 0)
	f.cost = append(f.cost, cost, -cost)
	f.next = append(f.next, f.first[u], f.first[v])
	f.first[u], f.first[v] = a, a+1
	return a
}

// flow is what runs on arc a; on arc -1, nothing.
func (f *network) flow(a int32) int {
	if a < 0 {
		return 0
	}
	return int(f.room[a^1])
}

// solve sends as much as can be from source to sink, at the least cost, by the primal-dual
// method: find what the cheapest way costs, saturate all ways of that cost, go on with the next
// dearer. It runs once for each cost that occurs, and here those are few.
func (f *network) solve(source, sink int32) {
	for f.price(source); f.dist[sink] < unreached; f.price(source) {
		for f.layer(source, sink) {
			copy(f.turn, f.first)
			f.push(source, sink, 1<<31-1)
		}
	}
}

// price sets dist. Bellman and Ford's, since a reverse arc's cost is negative.
func (f *network) price(source int32) {
	for i := range f.dist {
		f.dist[i] = unreached
	}
	f.dist[source] = 0
	waiting := make([]bool, len(f.dist))
	for f.queue = append(f.queue[:0], source); len(f.queue) > 0; {
		round := f.queue
		f.queue = make([]int32, 0, len(round))
		for _, u := range round {
			waiting[u] = false
			for a := f.first[u]; a >= 0; a = f.next[a] {
				v, d := f.to[a], f.dist[u]+f.cost[a]
				if f.room[a] == 0 || d >= f.dist[v] {
					continue
				}
				f.dist[v] = d
				if !waiting[v] {
					waiting[v] = true
					f.queue = append(f.queue, v)
				}
			}
		}
	}
}

// cheapest reports whether arc a, of node u, has room and is part of a cheapest way.
func (f *network) cheapest(u, a int32) bool {
	return f.room[a] > 0 && f.dist[u]+f.cost[a] == f.dist[f.to[a]]
}

// layer sets level along cheapest ways and reports whether one leads to sink.
func (f *network) layer(source, sink int32) bool {
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[source] = 0
	f.queue = append(f.queue[:0], source)
	for i := 0; i < len(f.queue); i++ {
		u := f.queue[i]
		for a := f.first[u]; a >= 0; a = f.next[a] {
			if v := f.to[a]; f.level[v] < 0 && f.cheapest(u, a) {
				f.level[v] = f.level[u] + 1
				f.queue = append(f.queue, v)
			}
		}
	}
	return f.level[sink] >= 0
}

// push sends up to limit from u to sink, each arc one level up, and returns how much went.
func (f *network) push(u, sink, limit int32) int32 {
	if u == sink {
		return limit
	}
	sent := int32(0)
	for ; f.turn[u] >= 0; f.turn[u] = f.next[f.turn[u]] {
		a := f.turn[u]
		if v := f.to[a]; f.level[v] == f.level[u]+1 && f.cheapest(u, a) {
			d := f.push(v, sink, min(limit-sent, f.room[a]))
			f.room[a] -= d
			f.room[a^1] += d
			if sent += d; sent == limit {
				return sent // this arc may have room left: it is tried again
			}
		}
	}
	return sent
}
