package machine

import (
	"fmt"
	"strings"

	"github.com/tenure-go/tenure/cas"
)

// worthTelling: not the events that come all the time and say nothing.
func worthTelling(ev Event) bool {
	switch ev := ev.(type) {
	case Tick:
		return false
	case Watched:
		return len(ev.Change.Events) > 0
	}
	return true
}

// tellEvent is ev as people read it.
func tellEvent(prefix string, ev Event) string {
	switch ev := ev.(type) {
	case Listed:
		return fmt.Sprintf("<- list at rev %d", ev.View.Rev)
	case Watched:
		return fmt.Sprintf("<- rev %d: %s", ev.Change.Rev, tellChange(prefix, ev.Change))
	case LeaseGranted:
		return fmt.Sprintf("<- lease %d granted: %v", ev.Lease.ID, ev.Err)
	case Renewed:
		return fmt.Sprintf("<- lease %d renewed: %v", ev.Lease.ID, ev.Err)
	case Revoked:
		return fmt.Sprintf("<- lease %d revoked: %v", ev.Lease, ev.Err)
	case Committed:
		return fmt.Sprintf("<- #%d: rev %d, %v", ev.ID, ev.Rev, ev.Err)
	case Planned:
		return fmt.Sprintf("<- plan: %d grants, %d moves, %d cancels", len(ev.Plan.Grants), len(ev.Plan.Moves), len(ev.Plan.Cancels))
	}
	return fmt.Sprintf("<- %s %+v", strings.TrimPrefix(fmt.Sprintf("%T", ev), "machine."), ev)
}

func tellChange(prefix string, c cas.Change) string {
	var parts []string
	for _, e := range c.Events {
		key := strings.TrimPrefix(e.Key, prefix)
		switch {
		case e.Deleted:
			parts = append(parts, "-"+key)
		case strings.HasPrefix(key, "moves") || strings.HasPrefix(key, "members"):
			parts = append(parts, fmt.Sprintf("+%s@%d%s", key, e.Lease, marks(e.Value)))
		default:
			parts = append(parts, fmt.Sprintf("+%s@%d", key, e.Lease))
		}
	}
	return strings.Join(parts, " ")
}

// marks are what matters in a record.
func marks(value []byte) string {
	var out string
	for _, mark := range []string{"ready", "draining"} {
		if strings.Contains(string(value), `"`+mark+`":true`) {
			out += "(" + mark + ")"
		}
	}
	return out
}

func (n *simNode) tellEffect(e Effect) {
	switch e := e.(type) {
	case Trust:
		if e.Until == 0 {
			n.trace(n.name, "  -> Trust is over")
			return
		}
		n.trace(n.name, "  -> Trust for %v", e.Until-n.local())
	case Progress, Renew:
	case Commit:
		n.trace(n.name, "  -> %s%v #%d", e.Kind, e.Shards, e.ID)
	case MakePlan:
		n.trace(n.name, "  -> MakePlan %+v owners %q moves %v avoids %v", e.In.Members, e.In.Owners, e.In.Moves, e.In.Avoids)
	default:
		n.trace(n.name, "  -> %s %+v", strings.TrimPrefix(fmt.Sprintf("%T", e), "machine."), e)
	}
}
