package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
)

// storeCommand is what happens to the store, or what an operator does there.
func (g *stage) storeCommand(verb string, w *words) {
	what := w.next()
	if verb == "store" {
		g.storeItself(what)
		return
	}
	switch what {
	case "drains":
		g.operator(cas.Put(g.keys.Drain(w.next()), layout.Encode(layout.Drain{Format: 1, Why: "maintenance"})))
	case "undrains":
		g.operator(cas.Delete(g.there(g.keys.Drain(w.next()))))
	case "pins":
		s := w.shard()
		w.want("to")
		g.operator(cas.Put(g.keys.Pin(s), layout.Encode(layout.Pin{Format: 1, Member: w.next()})))
	case "unpins":
		g.operator(cas.Delete(g.there(g.keys.Pin(w.shard()))))
	case "sets": // lineage N
		w.want("lineage")
		g.setConfig(func(c *layout.Config) { c.Lineage = w.number() })
	case "renames": // the group: another id, as if its keys had been copied over
		w.want("group")
		g.setConfig(func(c *layout.Config) { c.ID = "another" })
	case "deletes": // KEY, as the trace writes it
		g.operator(cas.Delete(g.there(g.keyOf(w.next()))))
	case "detaches": // KEY: puts it again under no lease, as an operator's put does
		key := g.there(g.keyOf(w.next()))
		g.operator(cas.Put(key, g.store.keys[key].Value))
	case "rewrites": // KEY: puts it again under its lease
		e := g.store.keys[g.there(g.keyOf(w.next()))]
		g.operator(cas.PutLeased(e.Key, e.Value, e.Lease))
	case "revokes": // NAME: its lease
		id := w.process().lastLease()
		g.checks.ended[id] = true
		if err := g.endLease("expired", fmt.Sprintf("operator revokes lease %d of %s", id, g.who(id)), id); err != nil {
			g.failf("%v", err)
		}
	default:
		g.failf("an operator who %s?", what)
	}
}

func (g *stage) storeItself(what string) {
	set := func(flag *bool, to bool) {
		if *flag == to {
			g.failf("it is so already")
		}
		*flag = to
		g.tell("store: %s", what)
	}
	switch what {
	case "stops": // it answers nobody
		set(&g.down, true)
	case "starts": // as after an election: every lease gets its full TTL again
		set(&g.down, false)
		g.store.elect(g.now)
	case "fills": // it refuses puts
		set(&g.store.full, true)
	case "empties":
		set(&g.store.full, false)
	case "moves": // on: others write to it, keys that are none of the group's
		g.store.foreign()
		g.tell("store %d: a key of somebody else's", g.store.rev)
	case "snapshots":
		g.backup = g.store.clone()
		g.tell("store: a backup is taken at %d", g.store.rev)
	case "restores": // the backup: all watches break
		if g.backup == nil {
			g.failf("there is no backup")
		}
		g.tell("store: goes back from %d to %d", g.store.rev, g.backup.rev)
		for id := range g.store.leases {
			g.checks.ended[id] = true
		}
		g.store = g.backup.clone()
		g.store.elect(g.now)
		for _, p := range g.procs {
			if p.up {
				p.relist()
			}
		}
	default:
		g.failf("a store that %s?", what)
	}
}

func (g *stage) setConfig(change func(*layout.Config)) {
	key := g.there(g.keys.Config())
	c, err := layout.Decode[layout.Config](g.store.keys[key].Value)
	if err != nil {
		g.failf("%v", err)
	}
	change(&c)
	g.operator(cas.Put(key, layout.Encode(c)))
}

// there is key, which has to exist.
func (g *stage) there(key string) string {
	if g.store.keys[key].Rev == 0 {
		g.failf("there is no %s", g.tellKey(key))
	}
	return key
}

// keyOf is the key that the trace writes so.
func (g *stage) keyOf(short string) string {
	for _, k := range g.store.sorted {
		if g.tellKey(k) == short {
			return k
		}
	}
	g.failf("there is no %s", short)
	return ""
}

// tellState is the store shard by shard, then who is there and what runs in it.
func (g *stage) tellState() {
	v := g.checks.view()
	_, oldest, _ := v.Oldest()
	g.tell("rev %d, lineage %d, planner %s", v.Rev, v.Config.Lineage, orNone(oldest))
	for s, claim := range v.Claims {
		if s == 8 {
			g.tell("... %d shards in all", len(v.Claims))
			break
		}
		line := fmt.Sprintf("shard %d: ", s)
		if claim.Rev == 0 {
			line += "unclaimed"
		} else {
			line += fmt.Sprintf("%s at %v", g.who(claim.Lease), v.Epoch(claim.Rev))
		}
		if mv, ok := v.Moves[s]; ok {
			line += ", to move to " + g.who(mv.Lease)
			if mv.Ready {
				line += " (ready)"
			}
		}
		for _, id := range slices.Sorted(maps.Keys(v.Avoids[s])) {
			line += ", avoided by " + id
		}
		if id, ok := v.Pins[s]; ok {
			line += ", pinned to " + id
		}
		g.tell("%s", line)
	}
	for _, p := range g.procs {
		g.tell("%s: %s", p.name, p.tellState(v))
	}
}

func (p *process) tellState(v *layout.View) string {
	if !p.up {
		return "gone"
	}
	var parts []string
	switch id, ok := v.MemberOf(p.lease); {
	case ok && p.created != 0 && p.lease != 0:
		parts = append(parts, fmt.Sprintf("member since %d", v.Members[id].Created))
		if v.Members[id].Draining {
			parts = append(parts, "draining")
		}
	default:
		parts = append(parts, "no member")
	}
	if left := p.trust - p.now; left > 0 {
		parts = append(parts, "trust "+left.Round(100*time.Millisecond).String())
	} else {
		parts = append(parts, "no trust")
	}
	for _, s := range slices.Sorted(maps.Keys(p.m.slots)) {
		if s < 8 && p.m.slots[s].phase != idle {
			parts = append(parts, fmt.Sprintf("%v %d", p.m.slots[s].phase, s))
		}
	}
	return strings.Join(parts, ", ")
}

func orNone(id string) string {
	if id == "" {
		return "none"
	}
	return id
}

func (g *stage) tellLoads() {
	v := g.checks.view()
	members := make(map[int]int)
	for _, m := range v.Members {
		members[v.Held(m.Lease)]++
	}
	for _, held := range slices.Sorted(maps.Keys(members)) {
		g.tell("%d members own %d shards each", members[held], held)
	}
}
