package layout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// View is a group as of one revision. It is a plain value of its owner's: not safe for
// concurrent use. Make it with NewView, fill it with Load, keep it up with Apply.
type View struct {
	Keys    Keys
	Rev     int64  // everything up to here is in
	Cluster uint64 // as of Load

	Config  ConfigState
	Members map[string]MemberState
	Claims  []ClaimState // by shard; Rev 0: unclaimed
	Moves   map[int]MoveState
	Avoids  map[int]map[string]AvoidState
	Pins    map[int]string
	Drains  map[string]bool
	Corpses map[string]int64 // member records under no lease, by their change revision: an operator's put. Nobody is there

	byLease map[cas.LeaseID]string // member by its lease
	held    map[cas.LeaseID]int    // claims by lease
}

// ConfigState is the config as found. Rev 0: there is none yet. Err: it can't be read.
type ConfigState struct {
	Config
	Rev int64
	Err error
}

// MemberState is a member as found. One with Err is present all the same.
type MemberState struct {
	Member
	Rev, Created int64
	Lease        cas.LeaseID
	Err          error
}

// ClaimState is a claim: who holds it is told by its lease.
type ClaimState struct {
	Rev   int64
	Lease cas.LeaseID
}

// MoveState is a pending move. Created identifies it.
type MoveState struct {
	Move
	Created, Rev int64
	Lease        cas.LeaseID
}

// AvoidState is an avoid key.
type AvoidState struct {
	Created int64
	Lease   cas.LeaseID
}

// Touched is what a change touched. Its slices are good until the next Apply.
type Touched struct {
	Config  bool
	Members []string // also those whose drain changed
	Shards  []int    // whose claim, move, avoid or pin changed; may repeat
}

// NewView returns an empty view at revision 0 of a group that has shards shards.
func NewView(k Keys, shards int) *View {
	return &View{
		Keys:    k,
		Members: make(map[string]MemberState),
		Claims:  make([]ClaimState, shards),
		Moves:   make(map[int]MoveState),
		Avoids:  make(map[int]map[string]AvoidState),
		Pins:    make(map[int]string),
		Drains:  make(map[string]bool),
		Corpses: make(map[string]int64),
		byLease: make(map[cas.LeaseID]string),
		held:    make(map[cas.LeaseID]int),
	}
}

// Load returns a view of what s says.
func Load(k Keys, shards int, s cas.Snapshot) *View {
	v := NewView(k, shards)
	var t Touched
	for _, e := range s.Entries {
		v.put(e, &t)
	}
	v.Rev, v.Cluster = s.Rev, s.Cluster
	return v
}

// Apply brings v to c.Rev and adds what changed to t, which it empties first. A change at or below
// v.Rev is old and does nothing.
func (v *View) Apply(c cas.Change, t *Touched) {
	t.Config, t.Members, t.Shards = false, t.Members[:0], t.Shards[:0]
	if c.Rev <= v.Rev {
		return
	}
	for _, e := range c.Events {
		if e.Deleted {
			v.remove(e.Key, t)
		} else {
			v.put(e.Entry, t)
		}
	}
	v.Rev = c.Rev
}

// Holder is the member that holds s, and false if nobody does or its lease is no member's.
func (v *View) Holder(s int) (MemberState, bool) {
	c := v.Claims[s]
	if c.Rev == 0 {
		return MemberState{}, false
	}
	id, ok := v.byLease[c.Lease]
	return v.Members[id], ok
}

// MemberOf is the member that has lease, and false if none has.
func (v *View) MemberOf(lease cas.LeaseID) (string, bool) {
	id, ok := v.byLease[lease]
	return id, ok
}

// Strays are the leases that hold claims but are no member's, in order.
func (v *View) Strays() []cas.LeaseID {
	var strays []cas.LeaseID
	for lease := range v.held {
		if _, ok := v.byLease[lease]; !ok {
			strays = append(strays, lease)
		}
	}
	slices.Sort(strays)
	return strays
}

// Claimed reports whether any shard is claimed.
func (v *View) Claimed() bool { return len(v.held) > 0 }

// Held counts the claims under lease.
func (v *View) Held(lease cas.LeaseID) int { return v.held[lease] }

// Epoch is the epoch of a claim written at rev, and 0 where there is none: no claim, no config that can be read, or
// a claim from before the config's last change. Such a one is under the lineage
// before, and must be claimed again before anybody acts under it.
func (v *View) Epoch(rev int64) shard.Epoch {
	if rev == 0 || v.Config.Rev == 0 || v.Config.Err != nil || rev < v.Config.Rev {
		return 0
	}
	e, err := shard.NewEpoch(v.Config.Lineage, rev)
	if err != nil {
		return 0 // nodes end when the store passes the highest revision
	}
	return e
}

// Oldest is the member that joined first: the planner. False if there is none.
func (v *View) Oldest() (MemberState, string, bool) {
	var oldest MemberState
	var who string
	for id, m := range v.Members {
		if who == "" || m.Created < oldest.Created {
			oldest, who = m, id
		}
	}
	return oldest, who, who != ""
}

// Eligible reports whether m may be given shards.
func (m MemberState) Eligible() bool { return m.Err == nil && !m.Draining && m.Weight > 0 }

func (v *View) put(e cas.Entry, t *Touched) {
	kind, s, id := v.Keys.Parse(e.Key)
	switch kind {
	case ConfigKey:
		c, err := Decode[Config](e.Value)
		if err == nil && (c.Lineage < 0 || c.Lineage > shard.MaxLineage) {
			err = fmt.Errorf("layout: lineage %d in the config: want 0 to %d", c.Lineage, shard.MaxLineage)
		}
		v.Config = ConfigState{Config: c, Rev: e.Rev, Err: err}
		t.Config = true
	case MemberKey:
		v.bury(id)
		if e.Lease == 0 {
			v.Corpses[id] = e.Rev
		} else {
			m, err := Decode[Member](e.Value)
			v.Members[id] = MemberState{Member: m, Rev: e.Rev, Created: e.Created, Lease: e.Lease, Err: err}
			v.byLease[e.Lease] = id
		}
		t.Members = append(t.Members, id)
	case DrainKey:
		v.Drains[id] = true
		t.Members = append(t.Members, id)
	default:
		v.putShard(kind, s, id, e, t)
	}
}

func (v *View) putShard(kind Kind, s int, id string, e cas.Entry, t *Touched) {
	if kind == Other || s >= len(v.Claims) {
		return
	}
	switch kind {
	case ClaimKey:
		v.unhold(s)
		v.Claims[s] = ClaimState{Rev: e.Rev, Lease: e.Lease}
		v.held[e.Lease]++
	case MoveKey:
		// One that can't be read is a move all the same, never ready; its lease says where to.
		m, _ := Decode[Move](e.Value)
		v.Moves[s] = MoveState{Move: m, Created: e.Created, Rev: e.Rev, Lease: e.Lease}
	case AvoidKey:
		if v.Avoids[s] == nil {
			v.Avoids[s] = make(map[string]AvoidState)
		}
		v.Avoids[s][id] = AvoidState{Created: e.Created, Lease: e.Lease}
	case PinKey:
		p, err := Decode[Pin](e.Value)
		if err != nil {
			delete(v.Pins, s)
		} else {
			v.Pins[s] = p.Member
		}
	}
	t.Shards = append(t.Shards, s)
}

func (v *View) remove(key string, t *Touched) {
	kind, s, id := v.Keys.Parse(key)
	switch kind {
	case ConfigKey:
		v.Config = ConfigState{}
		t.Config = true
		return
	case MemberKey:
		v.bury(id)
		t.Members = append(t.Members, id)
		return
	case DrainKey:
		delete(v.Drains, id)
		t.Members = append(t.Members, id)
		return
	}
	if kind == Other || s >= len(v.Claims) {
		return
	}
	switch kind {
	case ClaimKey:
		v.unhold(s)
		v.Claims[s] = ClaimState{}
	case MoveKey:
		delete(v.Moves, s)
	case AvoidKey:
		delete(v.Avoids[s], id)
		if len(v.Avoids[s]) == 0 {
			delete(v.Avoids, s)
		}
	case PinKey:
		delete(v.Pins, s)
	}
	t.Shards = append(t.Shards, s)
}

// bury forgets what is known of the member id.
func (v *View) bury(id string) {
	if lease := v.Members[id].Lease; v.byLease[lease] == id {
		delete(v.byLease, lease)
	}
	delete(v.Members, id)
	delete(v.Corpses, id)
}

func (v *View) unhold(s int) {
	lease := v.Claims[s].Lease
	if v.Claims[s].Rev == 0 {
		return
	}
	if v.held[lease]--; v.held[lease] == 0 {
		delete(v.held, lease)
	}
}

// Clone is a copy of v that shares nothing with it that Apply changes.
func (v *View) Clone() *View {
	c := *v
	c.Members, c.Claims, c.Moves = maps.Clone(v.Members), slices.Clone(v.Claims), maps.Clone(v.Moves)
	c.Pins, c.Drains, c.Corpses = maps.Clone(v.Pins), maps.Clone(v.Drains), maps.Clone(v.Corpses)
	c.byLease, c.held = maps.Clone(v.byLease), maps.Clone(v.held)
	c.Avoids = make(map[int]map[string]AvoidState, len(v.Avoids))
	for s, who := range v.Avoids {
		c.Avoids[s] = maps.Clone(who)
	}
	return &c
}
