package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is one thing that is to go wrong. Which of the fields mean something depends on its kind.
type fault struct {
	At     time.Duration `json:"at"` // since the run's start
	Kind   string        `json:"kind"`
	Node   int           `json:"node"`
	Member int           `json:"member"`
	Shard  int           `json:"shard"`
	For    time.Duration `json:"for"`
	Coin   bool          `json:"coin"` // one of two ways: see where the kind is carried out
}

func (f fault) String() string {
	s := fmt.Sprintf("%6.1fs %-14s", f.At.Seconds(), f.Kind)
	k := kindOf(f.Kind)
	if k.node {
		s += fmt.Sprintf(" %s", nodeID(f.Node))
	}
	if k.member {
		s += fmt.Sprintf(" etcd-%d", f.Member+1)
	}
	if f.Kind == faultPin {
		s += fmt.Sprintf(" shard %d", f.Shard)
	}
	if f.For > 0 {
		s += fmt.Sprintf(" for %.1fs", f.For.Seconds())
	}
	if f.Coin && k.coin != "" {
		s += ", " + k.coin
	}
	return s
}

// happened is a fault that was carried out.
type happened struct {
	fault
	Start time.Duration `json:"start"`
	End   time.Duration `json:"end"`
}

// Kinds of faults.
const (
	faultStop        = "stop"         // SIGSTOP beyond the TTL
	faultHiccup      = "hiccup"       // SIGSTOP for less
	faultZombie      = "zombie"       // SIGSTOP until others own all that the node owned, and have written
	faultKill        = "kill"         // SIGKILL, and start again
	faultRestart     = "restart"      // SIGTERM, and start again
	faultCut         = "cut"          // node and etcd: silence both ways
	faultCutRequests = "cut-requests" // what the node sends to etcd is lost
	faultCutReplies  = "cut-replies"  // what etcd answers is lost
	faultCutMember   = "cut-member"   // node and one member of etcd
	faultCutSQL      = "cut-sql"      // node and Postgres: silence both ways
	faultSQLReplies  = "sql-replies"  // what Postgres answers is lost
	faultCutPeers    = "cut-peers"    // other nodes can't reach the node's server
	faultKillLeader  = "kill-leader"  // SIGKILL of etcd's leader, and start again
	faultStopMember  = "stop-member"  // SIGSTOP of a member of etcd
	faultRestartEtcd = "restart-etcd" // SIGKILL of all members, and start again
	faultCompact     = "compact"
	faultDefragment  = "defragment"
	faultLineage     = "lineage" // an operator raises it
	faultPin         = "pin"     // an operator pins a shard to a node, and unpins it
)

// kind says how faults of a kind are planned.
type kind struct {
	name    string
	weight  float64
	node    bool   // it is about a node
	member  bool   // it is about one member of etcd
	etcd    bool   // etcd as a whole suffers
	coin    string // what the fault's coin means
	least   time.Duration
	most    time.Duration
	inTTLs  bool          // least and most are added to times of the TTL
	ttls    [2]float64    // those
	recover time.Duration // until the same thing should suffer again
}

const ms = time.Millisecond

var kinds = []kind{
	{name: faultStop, weight: 3, node: true, inTTLs: true, ttls: [2]float64{1.2, 2.2}, least: 500 * ms, most: 500 * ms, recover: 2500 * ms},
	{name: faultHiccup, weight: 1, node: true, inTTLs: true, ttls: [2]float64{0.2, 1}, recover: 500 * ms},
	{name: faultKill, weight: 2, node: true, coin: "successor takes over", least: 0, most: 2000 * ms, recover: 3 * time.Second},
	{name: faultRestart, weight: 1, node: true, coin: "successor takes over", least: 0, most: 500 * ms, recover: 3 * time.Second},
	{name: faultCut, weight: 2, node: true, coin: "what was sent is lost", inTTLs: true, ttls: [2]float64{0.5, 1.8}, recover: time.Second},
	{name: faultCutRequests, weight: 1, node: true, coin: "what was sent is lost", inTTLs: true, ttls: [2]float64{0.5, 1.8}, recover: time.Second},
	{name: faultCutReplies, weight: 1, node: true, coin: "what was sent is lost", inTTLs: true, ttls: [2]float64{0.5, 1.8}, recover: time.Second},
	{name: faultCutMember, weight: 1, node: true, member: true, coin: "what was sent is lost", least: 1000 * ms, most: 6000 * ms, recover: time.Second},
	{name: faultCutSQL, weight: 1, node: true, coin: "what was sent is lost", least: 500 * ms, most: 4000 * ms, recover: time.Second},
	{name: faultSQLReplies, weight: 1, node: true, coin: "what was sent is lost", least: 500 * ms, most: 3000 * ms, recover: time.Second},
	{name: faultCutPeers, weight: 0.7, node: true, coin: "what was sent is lost", least: 500 * ms, most: 3000 * ms, recover: 500 * ms},
	{name: faultKillLeader, weight: 1, etcd: true, least: 200 * ms, most: 2000 * ms, recover: 3 * time.Second},
	{name: faultStopMember, weight: 1, member: true, etcd: true, coin: "the leader instead", least: 500 * ms, most: 3000 * ms, recover: 2 * time.Second},
	{name: faultRestartEtcd, weight: 0.6, etcd: true, least: 0, most: 1000 * ms, recover: 6 * time.Second},
	{name: faultCompact, weight: 0.7},
	{name: faultDefragment, weight: 0.5, member: true, etcd: true, recover: time.Second},
	{name: faultLineage, weight: 0.3, recover: time.Second},
	{name: faultPin, weight: 0.7, least: 1000 * ms, most: 4000 * ms},
	{name: faultZombie, node: true},
}

func kindOf(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

// mostBroken is how many nodes suffer at a time: the group is to stay alive.
const mostBroken = 2

// faults is the plan: a function of the options alone.
//
// Each seed has its own rates of the kinds, so that some runs are full of what others hardly have, and combinations of
// rare things occur. The first fault is a stop: no run is to be without a zombie.
func (o options) faults() []fault {
	if o.noFence {
		return o.zombies()
	}
	random := rand.New(rand.NewPCG(o.seed, 1))
	weights := make([]float64, len(kinds))
	for i, k := range kinds {
		weights[i] = k.weight * []float64{0.3, 1, 1, 2}[random.IntN(4)]
		if !o.wants(k.name) {
			weights[i] = 0
		}
	}

	var all []fault
	free := busy{nodes: make([]time.Duration, nodes)}
	for at := 2 * time.Second; at < o.length; at += 1200*ms + time.Duration(random.Int64N(int64(3000*ms))) {
		k := kinds[draw(random, weights)]
		if len(all) == 0 && o.wants(faultStop) {
			k = kindOf(faultStop)
		}
		for range 20 {
			f := k.draw(random, o.ttl)
			if f.At = at; free.take(&f, random) {
				all = append(all, f)
				break
			}
			k = kinds[draw(random, weights)]
		}
	}
	return all
}

// wants reports that faults of that kind may be planned.
func (o options) wants(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

// checkKinds refuses names that are no kind's.
func (o options) checkKinds() error {
	if o.only == "" {
		return nil
	}
	for name := range strings.SplitSeq(o.only, ",") {
		if !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name && k.weight > 0 }) {
			var names []string
			for _, k := range kinds {
				if k.weight > 0 {
					names = append(names, k.name)
				}
			}
			return fmt.Errorf("-only %q: want of %s", name, strings.Join(names, ","))
		}
	}
	return nil
}

// zombies is the plan that makes stale writes for certain.
func (o options) zombies() []fault {
	var all []fault
	for at := 2 * time.Second; at < o.length; at += 3*o.ttl + 4*time.Second {
		all = append(all, fault{At: at, Kind: faultZombie, Node: len(all) % nodes})
	}
	return all
}

func (k kind) draw(random *rand.Rand, ttl time.Duration) fault {
	f := fault{
		Kind: k.name, Node: random.IntN(nodes), Member: random.IntN(members), Shard: random.IntN(group().Shards),
		Coin: random.IntN(2) == 0,
	}
	f.For = k.least
	if k.inTTLs {
		f.For += time.Duration((k.ttls[0] + random.Float64()*(k.ttls[1]-k.ttls[0])) * float64(ttl))
	}
	if k.most > k.least {
		f.For += time.Duration(random.Int64N(int64(k.most - k.least)))
	}
	f.For = f.For.Round(ms)
	return f
}

func draw(random *rand.Rand, weights []float64) int {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	at := random.Float64() * sum
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return 0
}

// busy knows until when nodes and etcd have to do with faults.
type busy struct {
	nodes []time.Duration
	etcd  time.Duration
}

// take reserves what f makes suffer, if that is free; it may choose another node.
func (b *busy) take(f *fault, random *rand.Rand) bool {
	k := kindOf(f.Kind)
	over := f.At + f.For + k.recover
	switch {
	case k.etcd && b.etcd > f.At:
		return false
	case k.etcd:
		b.etcd = over
	case k.node:
		broken := 0
		for _, until := range b.nodes {
			if until > f.At {
				broken++
			}
		}
		if broken >= mostBroken {
			return false
		}
		for b.nodes[f.Node] > f.At {
			f.Node = random.IntN(len(b.nodes))
		}
		b.nodes[f.Node] = over
	}
	return true
}

// summary counts faults by kind, for people.
func summary(faults []happened) string {
	counts := make(map[string]int)
	for _, f := range faults {
		counts[f.Kind]++
	}
	var words []string
	for _, k := range kinds {
		if n := counts[k.name]; n > 0 {
			words = append(words, fmt.Sprintf("%s %d", k.name, n))
		}
	}
	return strings.Join(words, ", ")
}
