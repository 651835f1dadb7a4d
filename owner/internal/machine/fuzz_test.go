package machine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// FuzzStep: no order of events makes a machine panic or spin, not even answers to what was never asked, for shards that are
// not there, twice, or in nonsense from other programs under the group's keys.
func FuzzStep(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed, 400)
	}
	f.Fuzz(func(t *testing.T, seed uint64, n int) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t, prepares, func(c *Config) { c.Takeover = seed%2 == 0 })
		if seed%3 > 0 {
			r.settle()
		}
		for range min(n, 2000) {
			if rng.IntN(8) == 0 {
				r.settle()
			}
			r.pass(time.Duration(rng.Int64N(int64(time.Second))))
			r.step(r.nonsense(rng))
			if rng.IntN(4) == 0 {
				r.drop()
			}
			if r.m.ended {
				if got := r.m.Step(r.now, Tick{}); len(got) > 0 || r.m.Next() != 0 {
					t.Fatalf("goes on after its end: %v", got)
				}
				return
			}
		}
	})
}

func (r *rig) nonsense(rng *rand.Rand) Event {
	s := rng.IntN(6) // the group has 4
	epoch := shard.Epoch(rng.IntN(20))
	if sl := r.m.slots[s]; sl != nil && rng.IntN(2) == 0 {
		epoch = sl.epoch
	}
	errs := []error{nil, nil, errTest, cas.ErrUncertain, cas.ErrLeaseNotFound, cas.ErrNoSpace, &cas.ConflictError{Rev: r.store.rev}}
	err := errs[rng.IntN(len(errs))]
	lease := cas.Lease{ID: cas.LeaseID(rng.IntN(4)), TTL: ttl, Rev: r.store.rev}
	switch rng.IntN(13) {
	case 0:
		return Ready{Shard: s, Epoch: epoch}
	case 1:
		return Drained{Shard: s, Epoch: epoch}
	case 2:
		return Returned{Shard: s, Epoch: epoch, Err: err}
	case 3:
		return Prepared{Shard: s, Move: int64(epoch), Err: err}
	case 4:
		return Committed{ID: uint64(rng.IntN(20)), Rev: r.store.rev, Err: err}
	case 5:
		return Renewed{Sent: r.now, Lease: lease, Err: err}
	case 6:
		return Revoked{Lease: lease.ID, Err: err}
	case 7:
		if rng.IntN(10) == 0 {
			return LeaseGranted{Sent: r.now, Lease: lease, Err: err}
		}
	case 8:
		change := shard.Change{Shard: s % 4, From: "a", To: string(rune('a' + rng.IntN(3)))}
		return Planned{Plan: shard.Plan{Grants: []shard.Change{change}, Moves: []shard.Change{change}, Cancels: []shard.Change{change}}}
	case 9:
		if rng.IntN(50) == 0 {
			return Leave{}
		}
	case 10:
		key := []string{
			"members/a", "members/b", "members/", "claims/00001", "claims/00009", "claims/x", "moves/00001", "moves/00005",
			"avoid/00001/a", "avoid/00001", "pins/00002", "drains/a", "drains/", "other",
		}[rng.IntN(14)]
		op := cas.PutLeased(r.keys.Prefix()+key, []byte(`{"format":1,"id":"x","to":"b"}`), 1)
		if r.store.leases[1] == nil {
			op.Lease = 0
		}
		if rng.IntN(3) == 0 {
			op = cas.Delete(op.Key)
		}
		r.put(op)
	case 11:
		return Watched{Change: cas.Change{Rev: int64(rng.IntN(int(r.store.rev) + 1))}}
	}
	return Tick{}
}
