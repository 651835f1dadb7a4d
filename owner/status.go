package owner

import (
	"time"

	"github.com/tenure-go/tenure/shard"
)

// Status is a snapshot for people.
type Status struct {
	Self     shard.Member
	Trust    time.Duration // left; 0: lost
	Planner  string        // ID of the member that plans, as this node sees it
	Rev      int64         // revision of the store that this node has seen
	Shards   []Event       // the latest of each shard held here, in the order of shards; Age and For are up to now
	Waiting  int           // requests that wait for a shard's gate
	Counters Counters
}

// Status is what the node is doing. Self.Meta is not to be changed.
func (n *Node) Status() Status {
	now := n.clock.Now()
	s := Status{
		Self:     n.config.member(),
		Trust:    max(0, n.trustUntil()-now),
		Planner:  *n.oldest.Load(),
		Rev:      n.board.Rev(),
		Counters: n.counters.read(),
	}
	s.Self.Draining = n.draining.Load()
	for i := range n.stations {
		st := n.stations[i].Load()
		if st == nil {
			continue
		}
		s.Waiting += int(st.waiting.Load())
		if t := st.tenure.Load(); t != nil {
			ev := *t.latest.Load()
			age := max(ev.Age, now-t.born)
			ev.Age, ev.For = age, age-ev.Age
			s.Shards = append(s.Shards, ev)
		}
	}
	return s
}
