package machine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// who has the lease, by name.
func (g *stage) who(id cas.LeaseID) string {
	if p := g.lessee[id]; p != nil {
		return p.name
	}
	return "nobody"
}

// tellKey is a key without the group's prefix and without zeros before the shard.
func (g *stage) tellKey(key string) string {
	switch kind, s, id := g.keys.Parse(key); kind {
	case layout.ClaimKey:
		return fmt.Sprintf("claims/%d", s)
	case layout.MoveKey:
		return fmt.Sprintf("moves/%d", s)
	case layout.PinKey:
		return fmt.Sprintf("pins/%d", s)
	case layout.AvoidKey:
		return fmt.Sprintf("avoid/%d/%s", s, id)
	}
	return strings.TrimPrefix(key, g.keys.Prefix())
}

// tellChange is what a revision changed: key=value, or -key.
func (g *stage) tellChange(c cas.Change) string {
	var parts []string
	for _, e := range c.Events {
		if e.Deleted {
			parts = append(parts, "-"+g.tellKey(e.Key))
			continue
		}
		parts = append(parts, g.tellKey(e.Key)+g.tellValue(e.Entry))
	}
	return strings.Join(few(parts), ", ")
}

func (g *stage) tellValue(e cas.Entry) string {
	switch kind, _, _ := g.keys.Parse(e.Key); kind {
	case layout.ClaimKey:
		return "=" + g.who(e.Lease)
	case layout.MoveKey:
		m, _ := layout.Decode[layout.Move](e.Value)
		if m.Ready {
			return "=" + g.who(e.Lease) + " (ready)"
		}
		return "=" + g.who(e.Lease)
	case layout.PinKey:
		pin, _ := layout.Decode[layout.Pin](e.Value)
		return "=" + pin.Member
	case layout.AvoidKey:
		av, _ := layout.Decode[layout.Avoid](e.Value)
		return fmt.Sprintf(" (%s: for %v)", av.Why, time.Duration(av.For)*time.Millisecond)
	case layout.MemberKey:
		m, _ := layout.Decode[layout.Member](e.Value)
		if m.Draining {
			return " (draining)"
		}
	case layout.ConfigKey:
		c, _ := layout.Decode[layout.Config](e.Value)
		return fmt.Sprintf(" (lineage %d)", c.Lineage)
	}
	return ""
}

// few is at most eight of parts.
func few(parts []string) []string {
	if n := len(parts); n > 8 {
		parts = append(parts[:3:3], fmt.Sprintf("%d more like these", n-4), parts[n-1])
	}
	return parts
}

// tellBroken is which conditions of t don't hold.
func (g *stage) tellBroken(t cas.Txn) string {
	var parts []string
	for _, c := range t.If {
		e, key := g.store.keys[c.Key], g.tellKey(c.Key)
		switch {
		case g.store.holds(c):
		case e.Rev == 0:
			parts = append(parts, key+" is gone")
		case c.Is == 0:
			parts = append(parts, key+" is there")
		case c.Attr == cas.Rev:
			parts = append(parts, fmt.Sprintf("%s is of %d, not %d", key, e.Rev, c.Is))
		case c.Attr == cas.Created:
			parts = append(parts, fmt.Sprintf("%s was created at %d, not %d", key, e.Created, c.Is))
		default:
			parts = append(parts, fmt.Sprintf("%s is %s's, not %s's", key, g.who(e.Lease), g.who(cas.LeaseID(c.Is))))
		}
	}
	return strings.Join(parts, ", ")
}

// tellEvent is ev as people read it.
func (p *process) tellEvent(ev Event) string {
	switch ev := ev.(type) {
	case Tick:
		return "the clock"
	case Leave:
		return "is told to leave"
	case Listed:
		return fmt.Sprintf("lists at %d", ev.View.Rev)
	case Watched:
		return fmt.Sprintf("sees %d", ev.Change.Rev)
	case LeaseGranted:
		if ev.Err == nil {
			return fmt.Sprintf("is given lease %d", ev.Lease.ID)
		}
		return answered("the request for a lease", ev.Err)
	case Renewed:
		return answered("renewal", ev.Err)
	case Revoked:
		return answered("revoke", ev.Err)
	case Committed:
		return answered(string(p.commits[ev.ID].Kind), ev.Err)
	case Planned:
		return tellPlan(ev.Plan)
	case Ready:
		return fmt.Sprintf("%d is ready", ev.Shard)
	case Drained:
		return fmt.Sprintf("%d is drained", ev.Shard)
	case Returned:
		return fmt.Sprintf("%d returns%s", ev.Shard, because(ev.Err))
	case Failed:
		return fmt.Sprintf("%d is given up by its handler%s", ev.Shard, because(ev.Err))
	case Prepared:
		if ev.Err != nil {
			return fmt.Sprintf("%d can't be prepared%s", ev.Shard, because(ev.Err))
		}
		return fmt.Sprintf("%d is prepared", ev.Shard)
	}
	return fmt.Sprintf("%T", ev)
}

// alwaysTold: even if nothing follows from it.
func (p *process) alwaysTold(ev Event) bool {
	switch ev := ev.(type) {
	case Renewed:
		return p.renewals || ev.Err != nil
	case Committed:
		return ev.Err != nil
	case LeaseGranted:
		return ev.Err != nil
	case Revoked:
		return ev.Err != nil
	case Tick, Listed, Watched:
		return false
	case Planned:
		return len(ev.Plan.Grants)+len(ev.Plan.Moves)+len(ev.Plan.Cancels) > 0
	}
	return true
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// answered is how a request ended.
func answered(what string, err error) string {
	switch {
	case err == nil:
		return what + " ok"
	case errors.Is(err, cas.ErrUncertain):
		return what + " has no answer"
	case errors.Is(err, cas.ErrLeaseNotFound):
		return what + " fails: no such lease"
	case errors.Is(err, cas.ErrNoSpace):
		return what + " fails: no space"
	}
	if c, ok := errors.AsType[*cas.ConflictError](err); ok {
		return fmt.Sprintf("%s refused at %d", what, c.Rev)
	}
	return what + " fails: " + err.Error()
}

func tellPlan(plan shard.Plan) string {
	var parts []string
	for _, c := range plan.Cancels {
		parts = append(parts, fmt.Sprintf("cancel %d's move to %s (%s)", c.Shard, c.To, c.Reason))
	}
	for _, l := range []struct {
		what string
		of   []shard.Change
	}{{"grant", plan.Grants}, {"move", plan.Moves}} {
		type group struct {
			from, to string
			reason   shard.Reason
		}
		var order []group
		shards := make(map[group][]int)
		for _, c := range l.of {
			k := group{c.From, c.To, c.Reason}
			if shards[k] == nil {
				order = append(order, k)
			}
			shards[k] = append(shards[k], c.Shard)
		}
		for _, k := range order {
			text := fmt.Sprintf("%s %s", l.what, tellShards(shards[k]))
			if k.from != "" {
				text += " from " + k.from
			}
			parts = append(parts, fmt.Sprintf("%s to %s (%s)", text, k.to, k.reason))
		}
	}
	if len(parts) == 0 {
		return "plans nothing"
	}
	return "plans: " + strings.Join(parts, ", ")
}

// tellShards is "0", "0 1 2", or "0-61".
func tellShards(shards []int) string {
	if n := len(shards); n > 3 && shards[n-1]-shards[0] == n-1 && slices.IsSorted(shards) {
		return fmt.Sprintf("%d-%d", shards[0], shards[n-1])
	}
	if n := len(shards); n > 8 {
		return fmt.Sprintf("%d shards", n)
	}
	parts := make([]string, len(shards))
	for i, s := range shards {
		parts[i] = strconv.Itoa(s)
	}
	return strings.Join(parts, " ")
}

// tellEffect is e as people read it, empty if it says nothing to them.
func (p *process) tellEffect(e Effect) string {
	switch e := e.(type) {
	case GrantLease:
		return "asks for a lease"
	case Renew:
		if p.renewals {
			return "renews"
		}
	case Revoke:
		if p.lessee[e.Lease] != p {
			return fmt.Sprintf("TAKEOVER of lease %d", e.Lease)
		}
		return fmt.Sprintf("REVOKE lease %d", e.Lease)
	case Commit:
		return p.tellCommit(e)
	case Relist:
		return "lists anew"
	case Trust:
		switch {
		case e.Until == 0:
			return "trusts no more"
		case p.renewals:
			return fmt.Sprintf("trusts for %v", e.Until-p.now)
		}
	case Joined:
		return "is a member"
	case Start:
		if e.Prepared {
			return fmt.Sprintf("starts %d under %v, prepared", e.Token.Shard, e.Token.Epoch)
		}
		return fmt.Sprintf("starts %d under %v", e.Token.Shard, e.Token.Epoch)
	case Open:
		return fmt.Sprintf("opens %d", e.Shard)
	case Close:
		return fmt.Sprintf("closes %d", e.Shard)
	case End:
		return fmt.Sprintf("ends %d", e.Shard)
	case Lose:
		return fmt.Sprintf("loses %d (%s)", e.Shard, e.Reason)
	case Overdue:
		if e.Forced {
			return fmt.Sprintf("gives up on %d, forced", e.Shard)
		}
		return fmt.Sprintf("ends all contexts of %d", e.Shard)
	case Finish:
		return fmt.Sprintf("finishes %d", e.Shard)
	case Prepare:
		return fmt.Sprintf("prepares %d", e.Shard)
	case Unprepare:
		return fmt.Sprintf("drops what it prepared of %d", e.Shard)
	case Note:
		if e.Err == nil {
			text, _, _ := strings.Cut(e.Text, ":")
			return "says: " + text
		}
	case Exit:
		if e.Err == nil {
			return "exits"
		}
		return "exits: " + e.Err.Error()
	}
	return ""
}

// tellCommit names the transaction, its shards and where they go.
func (p *process) tellCommit(e Commit) string {
	text := string(e.Kind)
	if len(e.Shards) > 0 {
		text += " " + tellShards(e.Shards)
	}
	for _, o := range e.Txn.Then {
		switch kind, _, _ := p.keys.Parse(o.Key); {
		case o.Delete:
		case kind == layout.MemberKey && e.Kind == Update:
			return text + p.tellValue(cas.Entry{Key: o.Key, Value: o.Value})
		case kind == layout.ClaimKey && e.Kind != Reclaim, kind == layout.MoveKey && e.Kind == Move:
			return text + " to " + p.who(o.Lease)
		}
	}
	return text
}
