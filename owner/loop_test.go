package owner

import (
	"context"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner/internal/machine"
	"github.com/tenure-go/tenure/shard"
)

// TestClaimIsShownBeforeItsRevision: a request that waits for the revision at which the shard became this node's finds it
// here. Were the revision shown first, it would be sent back to where it came from.
func TestClaimIsShownBeforeItsRevision(t *testing.T) {
	store := memkv.New()
	defer store.Close()
	n, err := New(store, shard.Group{Name: "g", Shards: 1}, func(context.Context, *Tenure) error { return nil }, Config{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	l := newLoop(n)
	defer func() { l.stopIO(); l.io.Wait() }()
	k := layout.For(n.group)
	l.step(machine.LeaseGranted{Lease: cas.Lease{ID: 7, TTL: time.Hour, Rev: 1}})
	l.step(machine.Listed{View: layout.Load(k, 1, cas.Snapshot{Rev: 2, Entries: []cas.Entry{
		{Key: k.Config(), Value: layout.Encode(layout.Config{Format: 1, ID: "x", Shards: 1, Hash: shard.XXH64}), Rev: 1, Created: 1},
		{Key: k.Member("b"), Value: layout.Encode(layout.Member{Format: 1, Member: shard.Member{ID: "b", Weight: 1}}), Rev: 2, Created: 2, Lease: 8},
	}})})
	st := n.station(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for rev := int64(3); rev < 20_000; rev++ {
			lease := cas.LeaseID(8) // at even revisions it is b's
			if rev%2 == 1 {
				lease = 7
			}
			l.step(machine.Watched{Change: cas.Change{Rev: rev, Events: []cas.Event{
				{Entry: cas.Entry{Key: k.Claim(0), Rev: rev, Created: 3, Lease: lease}},
			}}})
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		rev := n.board.Rev()
		claimed := st.claimed.Load()
		if rev == n.board.Rev() && rev > 2 && rev%2 == 1 && !claimed {
			<-done
			t.Fatalf("at revision %d the shard is this node's, and is not shown as such", rev)
		}
	}
}
