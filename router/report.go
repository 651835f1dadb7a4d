package router

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// report is what Debug shows. It is taken from several places one after another, so its parts need not agree.
type report struct {
	Group   *reportGroup   `json:"group,omitempty"`
	Node    *reportNode    `json:"node,omitempty"`
	Table   *reportTable   `json:"table,omitempty"`
	Members []reportMember `json:"members,omitempty"`
	Here    []reportTenure `json:"here,omitempty"`   // shards of this page that the node holds
	Owners  []reportOwner  `json:"owners,omitempty"` // of this page
	Page    reportPage     `json:"page"`
}

type reportGroup struct {
	Name   string     `json:"name"`
	ID     string     `json:"id"`
	Shards int        `json:"shards"`
	Hash   shard.Hash `json:"hash"`
}

type reportNode struct {
	reportMember
	Ready    string         `json:"ready"` // "yes", or why not
	Live     string         `json:"live"`
	Trust    millis         `json:"trust_ms"`
	Planner  string         `json:"planner"`
	Revision int64          `json:"revision"`
	Waiting  int            `json:"waiting"`
	Counters reportCounters `json:"counters"`
}

type reportCounters struct {
	Waits           int64  `json:"waits"`
	Waited          millis `json:"waited_ms"`
	Busy            int64  `json:"busy"`
	Renewals        int64  `json:"renewals"`
	RenewalFailures int64  `json:"renewal_failures"`
	Granted         int64  `json:"granted"`
	HandedOff       int64  `json:"handed_off"`
	Forced          int64  `json:"forced"`
	Lost            int64  `json:"lost"`
	Failed          int64  `json:"failed"`
	Held            millis `json:"held_ms"`
	Fenced          int64  `json:"fenced"`
}

type reportTable struct {
	Age      millis `json:"age_ms"`
	Revision int64  `json:"revision"`
	Owned    int    `json:"owned"`
	Unowned  int    `json:"unowned"`
}

type reportMember struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Zone     string `json:"zone,omitempty"`
	Version  string `json:"version,omitempty"`
	Weight   int    `json:"weight"`
	Draining bool   `json:"draining,omitempty"`
	Plans    bool   `json:"plans,omitempty"`
	Shards   int    `json:"shards"`
	onPage   []int
}

// OnPage are the member's shards of the page, in ranges.
func (m reportMember) OnPage() string { return ranges(m.onPage) }

type reportTenure struct {
	Shard int         `json:"shard"`
	Epoch string      `json:"epoch"`
	State owner.State `json:"state"`
	For   millis      `json:"for_ms"`
	Age   millis      `json:"age_ms"`
}

type reportOwner struct {
	Shard  int    `json:"shard"`
	Member string `json:"member,omitempty"` // "": nobody is known to own it
	Epoch  string `json:"epoch,omitempty"`
}

// reportPage is what of the shards is shown: From up to, but without, To.
type reportPage struct {
	From int  `json:"from"`
	To   int  `json:"to"`
	Prev *int `json:"prev,omitempty"`
	Next *int `json:"next,omitempty"`
	free []int
}

// Last is the last shard that is shown.
func (p reportPage) Last() int { return max(p.From, p.To-1) }

// Free are the shards of the page that nobody is known to own.
func (p reportPage) Free() string { return ranges(p.free) }

const pageShards = 1000

// newReport shows the page of shards that from is on.
func newReport(n debugged, t *Table, from int) *report {
	r := &report{}
	shards := 0
	if t != nil {
		shards = t.group.Shards
	}
	var status owner.Status
	if n != nil {
		status = n.Status()
		for _, ev := range status.Shards {
			shards = max(shards, ev.Token.Shard+1)
		}
	}
	r.Page.From = min(from, max(0, shards-1)) / pageShards * pageShards
	r.Page.To = min(shards, r.Page.From+pageShards)
	if prev := r.Page.From - pageShards; prev >= 0 {
		r.Page.Prev = &prev
	}
	if next := r.Page.To; next < shards {
		r.Page.Next = &next
	}
	if n != nil {
		r.showNode(n, status)
	}
	if t != nil {
		r.showTable(t)
	}
	return r
}

func (r *report) showNode(n debugged, s owner.Status) {
	c := s.Counters
	r.Node = &reportNode{
		reportMember: newMember(s.Self, len(s.Shards)),
		Ready:        yes(n.Ready()),
		Live:         yes(n.Live()),
		Trust:        millis(s.Trust),
		Planner:      s.Planner,
		Revision:     s.Rev,
		Waiting:      s.Waiting,
		Counters: reportCounters{
			c.Waits, millis(c.Waited), c.Busy, c.Renewals, c.RenewalFailures,
			c.Granted, c.HandedOff, c.Forced, c.Lost, c.Failed, millis(c.Held), c.Fenced,
		},
	}
	for _, ev := range s.Shards {
		if s := ev.Token.Shard; r.Page.From <= s && s < r.Page.To {
			r.Here = append(r.Here, reportTenure{s, ev.Token.Epoch.String(), ev.State, millis(ev.For), millis(ev.Age)})
		}
	}
}

func (r *report) showTable(t *Table) {
	r.Group = &reportGroup{t.group.Name, t.id(), t.group.Shards, t.group.Hash}
	r.Table = &reportTable{Age: millis(t.Age()), Revision: t.board.Rev()}
	at := make(map[string]int) // index in Members
	for _, m := range t.members() {
		at[m.ID] = len(r.Members)
		r.Members = append(r.Members, newMember(m, 0))
	}
	if len(r.Members) > 0 {
		r.Members[0].Plans = true // the oldest does
	}
	for s := range t.group.Shards {
		o := t.board.Owner(s)
		shown := r.Page.From <= s && s < r.Page.To
		if o == nil {
			r.Table.Unowned++
			if shown {
				r.Page.free = append(r.Page.free, s)
				r.Owners = append(r.Owners, reportOwner{Shard: s})
			}
			continue
		}
		r.Table.Owned++
		i, ok := at[o.Member.ID]
		if !ok { // the members were shown a moment before
			i = len(r.Members)
			at[o.Member.ID] = i
			r.Members = append(r.Members, newMember(*o.Member, 0))
		}
		m := &r.Members[i]
		m.Shards++
		if shown {
			m.onPage = append(m.onPage, s)
			r.Owners = append(r.Owners, reportOwner{s, m.ID, o.Epoch.String()})
		}
	}
}

func newMember(m shard.Member, shards int) reportMember {
	return reportMember{
		ID: m.ID, Address: m.Address, Zone: m.Zone, Version: m.Version,
		Weight: m.Weight, Draining: m.Draining, Shards: shards,
	}
}

func yes(err error) string {
	if err != nil {
		return err.Error()
	}
	return "yes"
}

// MeanWait is what a request that waited has waited on average.
func (c reportCounters) MeanWait() millis { return mean(c.Waited, c.Waits) }

// MeanHeld is how long a tenure that has ended had lasted on average.
func (c reportCounters) MeanHeld() millis {
	return mean(c.Held, c.HandedOff+c.Forced+c.Lost+c.Failed) // a lost one that overstays counts twice
}

func mean(sum millis, n int64) millis { return sum / millis(max(1, n)) }

// millis is a time.Duration that JSON has in whole milliseconds.
type millis time.Duration

// MarshalJSON is json.Marshaler's.
func (m millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Milliseconds(), 10), nil
}

func (m millis) String() string {
	d := time.Duration(m)
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

// ranges writes ascending numbers as "0–3 7 9–12".
func ranges(of []int) string {
	var b strings.Builder
	for i := 0; i < len(of); {
		j := i
		for j+1 < len(of) && of[j+1] == of[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if i == j {
			fmt.Fprint(&b, of[i])
		} else {
			fmt.Fprintf(&b, "%d–%d", of[i], of[j])
		}
		i = j + 1
	}
	return b.String()
}
