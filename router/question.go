package router

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
)

// question is one request to all owners, at the node that the client has asked, or at one that this one asks.
type question struct {
	h    *HTTP
	conf GatherConfig
	part func(*http.Request, []*owner.Tenure) (json.RawMessage, error)
	body *body
}

// findings are a question's answers.
type findings struct {
	answers []answered // by their first shard
	missing []Missing
}

// answered is one node's answer.
type answered struct {
	member string
	held   []ShardEpoch
	value  json.RawMessage
}

// seeker finds an answer for each shard. One goroutine uses it; those that ask nodes send it replies.
type seeker struct {
	q       *question
	r       *http.Request
	ctx     context.Context
	trips   []trip // of each shard: who is believed to own it, and who was asked
	ready   []int  // shards to be asked for now
	resting []int  // and in a while
	asking  int
	replies chan reply
	found   findings
}

// reply is how one node answered for some shards.
type reply struct {
	answered
	refused []refusedShard // by a node that does not own them
	failed  []Missing
}

// refusedShard is one that a node does not own, and what the node knows of who does.
type refusedShard struct {
	shard  int
	by     belief
	owner  *layout.Owned // nil: nobody
	reason error
}

// ask asks all owners and waits for their answers. Nothing of it runs when it returns.
func (q *question) ask(r *http.Request) findings {
	ctx, cancel := context.WithTimeout(r.Context(), q.conf.Timeout)
	defer cancel()
	shards := q.h.table.group.Shards
	s := &seeker{q: q, r: r, ctx: ctx, trips: make([]trip, shards), replies: make(chan reply)}
	for i := range shards {
		s.trips[i] = trip{h: q.h, shard: i}
		s.ready = append(s.ready, i)
	}
	s.run()
	for _, m := range s.found.missing {
		slices.Sort(m.Shards)
	}
	slices.SortFunc(s.found.answers, func(a, b answered) int { return cmp.Compare(a.held[0].Shard, b.held[0].Shard) })
	return s.found
}

func (s *seeker) run() {
	tick := time.NewTicker(firstRest)
	defer tick.Stop()
	over := s.ctx.Done()
	for {
		if s.ctx.Err() != nil {
			s.giveUp()
			over = nil
		}
		s.send()
		if s.asking == 0 && len(s.resting) == 0 {
			return
		}
		select {
		case re := <-s.replies:
			s.asking--
			s.take(re)
		case <-tick.C:
			s.ready, s.resting = append(s.ready, s.resting...), nil
		case <-over:
		}
	}
}

// giveUp misses what is not being asked for; those who are being asked end with the context.
func (s *seeker) giveUp() {
	left := append(s.ready, s.resting...)
	s.ready, s.resting = nil, nil
	unknown := Missing{Err: &owner.NotOwnerError{}}
	for _, i := range left {
		if err := s.trips[i].err; err != nil {
			s.miss([]int{i}, err)
			continue
		}
		unknown.Shards = append(unknown.Shards, i)
	}
	if len(unknown.Shards) > 0 {
		unknown.Err = &owner.NotOwnerError{Shard: unknown.Shards[0]}
		s.found.missing = append(s.found.missing, unknown)
	}
}

// miss gives shards up; those of one node and cause together.
func (s *seeker) miss(shards []int, err error) {
	for i := range s.found.missing {
		if m := &s.found.missing[i]; m.Err == err {
			m.Shards = append(m.Shards, shards...)
			return
		}
	}
	s.found.missing = append(s.found.missing, Missing{shards, err})
}

// address is a member and where it is to be reached: what shards are asked for together by.
type address struct{ member, target string }

// send asks the believed owners of the shards that are ready, each once for all of its shards.
func (s *seeker) send() {
	asks := make(map[address]*ask)
	slices.Sort(s.ready) // they come to rest as nodes refuse them
	for _, i := range s.ready {
		t := &s.trips[i]
		o := t.pick()
		switch {
		case o == nil:
			s.resting = append(s.resting, i)
			continue
		case t.tries == s.q.h.conf.Tries:
			s.miss([]int{i}, t.err)
			continue
		}
		t.tries++
		b := t.belief(o)
		to := address{o.Member.ID, b.target}
		a := asks[to]
		if a == nil {
			a = &ask{member: *o.Member, target: b.target}
			asks[to] = a
		}
		a.shards = append(a.shards, ShardEpoch{i, b.epoch})
	}
	s.ready = nil
	for _, a := range asks {
		s.asking++
		go func() { s.replies <- s.q.send(s.ctx, s.r, a) }()
	}
}

// take accounts for each shard that a node was asked for.
func (s *seeker) take(re reply) {
	if len(re.held) > 0 {
		s.found.answers = append(s.found.answers, re.answered)
	}
	for _, m := range re.failed {
		s.miss(m.Shards, m.Err)
	}
	for _, no := range re.refused {
		t := &s.trips[no.shard]
		t.refute(no.by)
		if no.owner != nil {
			t.learn(no.owner.Member, no.owner.Epoch)
		}
		t.err = no.reason
		if t.tries == 1 { // the first refusal says where to go
			s.ready = append(s.ready, no.shard)
		} else {
			s.resting = append(s.resting, no.shard)
		}
	}
}

func shardsOf(of []ShardEpoch) []int {
	shards := make([]int, len(of))
	for i, s := range of {
		shards[i] = s.Shard
	}
	return shards
}
