package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// rig is one machine, "a", by hand: the store answers when it is told to, and handlers do what the test says.
// Effects that nobody has taken yet wait in order.
type rig struct {
	*testing.T
	store   *modelStore
	keys    layout.Keys
	m       *Machine
	now     time.Duration
	pos     int64
	pending []Effect
	hold    map[Kind]bool // transactions that settle leaves alone
	plans   bool          // settle runs the planner too
	deaf    bool          // the watch brings nothing
}

const (
	ttl    = 10 * time.Second
	trust0 = ttl - ttl/10 // from a renewal's sending to the end of trust
)

// newRig is a node that has seen an empty store. Its group has 4 shards.
func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := bare(t, change...)
	r.list()
	return r
}

// bare is a node that has seen nothing.
func bare(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	c := Config{
		Group:        shard.Group{Name: "g", Shards: 4}.WithDefaults(),
		GroupID:      "gid",
		Member:       layout.Member{Member: shard.Member{ID: "a", Weight: 1}},
		TTL:          ttl,
		StartTimeout: 30 * time.Second, PrepareTimeout: 10 * time.Second, DrainTimeout: 8 * time.Second,
		MinMembers: 1, Settle: time.Second,
	}
	for _, f := range change {
		f(&c)
	}
	return &rig{T: t, store: newModelStore(), keys: layout.For(c.Group), m: New(c), now: time.Hour, hold: make(map[Kind]bool)}
}

// taken is a node whose id another member has, under the lease that is returned.
func taken(t *testing.T, change ...func(*Config)) (*rig, cas.LeaseID) {
	t.Helper()
	r := bare(t, change...)
	r.put(cas.Put(r.keys.Config(), layout.Encode(layout.Config{Format: 1, ID: "gid", Shards: 4, Hash: "xxh64"})))
	lease := r.other("a", false)
	r.list()
	return r, lease
}

// joined is a node that is a member, the only and so the oldest one; the first lease is its own.
func joined(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := newRig(t, change...)
	r.settle()
	if !r.m.Planning() {
		t.Fatal("the node did not join")
	}
	take[Joined](r)
	r.drop()
	return r
}

func takeover(c *Config) { c.Takeover = true }
func prepares(c *Config) { c.Member.Prepares = true }

func (r *rig) step(ev Event) {
	r.pending = append(r.pending, r.m.Step(r.now, ev)...)
}

func (r *rig) list() {
	r.pos = r.store.rev
	r.step(Listed{View: layout.Load(r.keys, len(r.shards()), r.store.list())})
}

func (r *rig) shards() []layout.ClaimState {
	if v := r.m.View(); v != nil {
		return v.Claims
	}
	return make([]layout.ClaimState, r.m.c.Group.Shards)
}

// watch brings what has happened.
func (r *rig) watch() {
	for _, c := range r.store.since(r.pos) {
		r.pos = c.Rev
		r.step(Watched{Change: c})
	}
}

// pass lets time pass, with a Tick whenever one is due. Nothing else happens.
func (r *rig) pass(d time.Duration) {
	end := r.now + d
	for range 10_000 {
		next := r.m.Next()
		if next == 0 || next > end {
			break
		}
		r.now = max(r.now, next)
		r.step(Tick{})
		if next := r.m.Next(); next != 0 && next <= r.now {
			r.Fatalf("after a Tick at %v, Next is %v: the driver would spin", r.now, next)
		}
	}
	r.now = end
	r.step(Tick{})
}

// live is pass with a store that answers.
func (r *rig) live(d time.Duration) {
	r.settle()
	for end := r.now + d; r.now < end; {
		next := r.m.Next()
		if next == 0 || next > end {
			next = end
		}
		r.pass(max(0, next-r.now))
		r.settle()
	}
}

// settle has the store answer all that it is asked, until nothing more is asked.
func (r *rig) settle() {
	for range 1000 {
		i := slices.IndexFunc(r.pending, func(e Effect) bool {
			switch e := e.(type) {
			case GrantLease, Renew, Revoke, Progress, Relist:
				return true
			case MakePlan:
				return r.plans
			case Commit:
				return !r.hold[e.Kind]
			}
			return false
		})
		if i < 0 {
			return
		}
		e := r.pending[i]
		r.pending = slices.Delete(r.pending, i, i+1)
		r.answer(e)
		if !r.deaf {
			r.watch()
		}
	}
	r.Fatal("the machine never stops asking")
}

func (r *rig) answer(e Effect) {
	switch e := e.(type) {
	case GrantLease:
		r.step(LeaseGranted{Sent: r.now, Lease: r.store.grant(r.now, e.TTL)})
	case Renew:
		l, err := r.store.renew(r.now, e.Lease)
		r.step(Renewed{Sent: r.now, Lease: l, Err: err})
	case Revoke:
		r.step(Revoked{Lease: e.Lease, Err: r.store.revoke("revoked", e.Lease)})
	case Commit:
		rev, err := r.store.commit(string(e.Kind), e.Txn)
		r.step(Committed{ID: e.ID, Rev: rev, Err: err})
	case Progress:
		if !r.deaf {
			r.watch()
			r.pos = max(r.pos, r.store.rev)
			r.step(Watched{Change: cas.Change{Rev: r.store.rev}})
		}
	case Relist:
		if !r.deaf {
			r.list()
		}
	case MakePlan:
		var p shard.Planner
		r.step(Planned{Plan: p.Plan(e.In)})
	}
}

// take is the first waiting effect of its type.
func take[E Effect](r *rig) E {
	r.Helper()
	return takeIf(r, func(E) bool { return true })
}

func takeIf[E Effect](r *rig, is func(E) bool) E {
	r.Helper()
	for i, e := range r.pending {
		if e, ok := e.(E); ok && is(e) {
			r.pending = slices.Delete(r.pending, i, i+1)
			return e
		}
	}
	var zero E
	r.Fatalf("no %T among %s", zero, r.tell())
	return zero
}

// commitOf is the first waiting transaction of kind.
func (r *rig) commitOf(kind Kind) Commit {
	r.Helper()
	return takeIf(r, func(c Commit) bool { return c.Kind == kind })
}

// none fails if an effect of the type waits.
func none[E Effect](r *rig, why string) {
	r.Helper()
	for _, e := range r.pending {
		if _, ok := e.(E); ok {
			r.Fatalf("%s: %s", why, r.tell())
		}
	}
}

func (r *rig) noCommit(kind Kind, why string) {
	r.Helper()
	for _, e := range r.pending {
		if c, ok := e.(Commit); ok && c.Kind == kind {
			r.Fatalf("%s: %s", why, r.tell())
		}
	}
}

// drop forgets all that waits.
func (r *rig) drop() { r.pending = nil }

func (r *rig) tell() string {
	var lines []string
	for _, e := range r.pending {
		lines = append(lines, fmt.Sprintf("%T%+v", e, e))
	}
	return strings.Join(lines, "\n\t")
}

// uncertain answers c as one whose reply was lost.
func (r *rig) uncertain(c Commit) { r.step(Committed{ID: c.ID, Err: cas.ErrUncertain}) }

// other is another member, with a lease of its own.
func (r *rig) other(id string, draining bool) cas.LeaseID {
	l := r.store.grant(r.now, time.Hour)
	r.record(id, l.ID, draining)
	return l.ID
}

func (r *rig) record(id string, lease cas.LeaseID, draining bool) {
	m := layout.Member{Format: 1, Member: shard.Member{ID: id, Weight: 1, Draining: draining}, TTL: ttl.Milliseconds()}
	r.put(cas.PutLeased(r.keys.Member(id), layout.Encode(m), lease))
}

// put changes the store, and shows it.
func (r *rig) put(ops ...cas.Op) {
	r.Helper()
	if _, err := r.store.commit("test", cas.Txn{Then: ops}); err != nil {
		r.Fatal(err)
	}
	if !r.deaf {
		r.watch()
	}
}

// claim gives shards to lease, all in one revision.
func (r *rig) claim(lease cas.LeaseID, shards ...int) {
	r.Helper()
	var ops []cas.Op
	for _, s := range shards {
		ops = append(ops, cas.PutLeased(r.keys.Claim(s), layout.Encode(layout.Claim{Format: 1}), lease))
	}
	r.put(ops...)
}

func (r *rig) order(lease cas.LeaseID, to string, ready bool, shards ...int) {
	r.Helper()
	var ops []cas.Op
	for _, s := range shards {
		ops = append(ops, cas.PutLeased(r.keys.Move(s), layout.Encode(layout.Move{Format: 1, To: to, Ready: ready}), lease))
	}
	r.put(ops...)
}

// serving has the node own shard 0 and serve it; it returns the epoch.
func (r *rig) serving() shard.Epoch {
	r.Helper()
	r.claim(r.m.Lease(), 0)
	return r.makeReady()
}

// makeReady plays a handler that starts well.
func (r *rig) makeReady() shard.Epoch {
	r.Helper()
	e := take[Start](r).Token.Epoch
	r.step(Ready{Shard: 0, Epoch: e})
	take[Open](r)
	return e
}

// finish plays a handler that ends well.
func (r *rig) finish(e shard.Epoch) {
	r.step(Drained{Shard: 0, Epoch: e})
	r.step(Returned{Shard: 0, Epoch: e})
	take[Finish](r)
}

// lostRenewals lets time pass in which no renewal is answered.
func (r *rig) lostRenewals(d time.Duration) {
	end := r.now + d
	for r.now < end {
		next := min(end, max(r.now+time.Millisecond, r.m.Next()))
		r.pass(next - r.now)
		for _, e := range slices.Clone(r.pending) {
			if e, ok := e.(Renew); ok {
				r.pending = slices.DeleteFunc(r.pending, func(o Effect) bool { return o == Effect(e) })
				r.step(Renewed{Sent: r.now, Lease: cas.Lease{ID: e.Lease}, Err: cas.ErrUncertain})
			}
		}
	}
}
