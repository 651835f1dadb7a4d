package owner_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/shard"
)

// solo runs one node on a server of its own.
type solo struct {
	server *memkv.Server
	client *memkv.Client // the node's
	node   *owner.Node
	ended  chan error
	leave  context.CancelFunc
}

func startSolo(t *testing.T, h owner.Handler, c owner.Config) *solo {
	t.Helper()
	server := memkv.NewServer(memkv.Config{})
	s := &solo{server: server, client: server.Client(), ended: make(chan error, 1)}
	c.ID, c.TTL, c.Settle = "solo", 10*time.Second, 10*time.Millisecond
	node, err := owner.New(s.client, accounts, h, c)
	if err != nil {
		t.Fatal(err)
	}
	s.node = node
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	s.leave = cancel
	go func() { s.ended <- node.Run(ctx) }()
	time.Sleep(time.Second)
	if got := len(s.ready()); got != accounts.Shards {
		t.Fatalf("shards ready after a second: got %d, want %d", got, accounts.Shards)
	}
	return s
}

// stop has the node leave and returns Run's error.
func (s *solo) stop() error {
	s.leave()
	err := <-s.ended
	s.client.Close()
	return err
}

// ready are the epochs of the shards that are served.
func (s *solo) ready() map[int]shard.Epoch {
	epochs := make(map[int]shard.Epoch)
	for _, ev := range s.node.Status().Shards {
		if ev.State == owner.Ready {
			epochs[ev.Token.Shard] = ev.Token.Epoch
		}
	}
	return epochs
}

// TestCase_consul18271_SilentDropIsLossWithinTheTTL: a network that drops everything in silence costs the tenure
// within the TTL: requests inside end, and new ones are refused.
func TestCase_consul18271_SilentDropIsLossWithinTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{WaitTimeout: time.Second})
		cut := time.Now()
		s.client.Cut(true)
		err := s.node.Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		took := time.Since(cut)
		if _, ok := errors.AsType[*owner.LostError](err); !ok || cas.OutcomeOf(err) != cas.Uncertain {
			t.Errorf("cause of the request's context: got %v, want a LostError, uncertain", err)
		}
		if took > 9*time.Second {
			t.Errorf("lost after %v, want within TTL minus margin, 9s", took)
		}
		err = s.node.Do(t.Context(), key, func(context.Context, *owner.Tenure) error {
			t.Error("I3: ran without trust")
			return nil
		})
		if cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("a request after loss: got %v, want it refused", err)
		}
		if err := s.node.Ready(); err != nil {
			t.Errorf("Ready during an outage of the store: got %v, want nil", err)
		}
		if err := s.node.Live(); err != nil {
			t.Errorf("Live during an outage of the store: got %v, want nil", err)
		}
		s.client.Cut(false)
		time.Sleep(5 * time.Second)
		if got := len(s.ready()); got != accounts.Shards {
			t.Errorf("shards ready after the outage: got %d, want %d", got, accounts.Shards)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestReclaim: when the store was away too long for trust but kept the lease, the shards are claimed again under higher
// epochs, without anybody else's doing.
func TestReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		before := s.ready()
		joined := s.member(t)
		var away atomic.Bool
		s.client.Intercept(func(c memkv.Call) memkv.Fate {
			if away.Load() && c.Kind == memkv.Renew {
				return memkv.Fate{Loss: memkv.Connection}
			}
			return memkv.Fate{}
		})
		away.Store(true)
		for len(s.ready()) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		away.Store(false) // between the end of trust and the lease's
		time.Sleep(900 * time.Millisecond)
		after := s.ready()
		if len(after) != accounts.Shards {
			t.Fatalf("shards ready after the outage: got %d, want %d", len(after), accounts.Shards)
		}
		for sh, e := range after {
			if e <= before[sh] {
				t.Errorf("I2: epoch of shard %d: got %v after %v", sh, e, before[sh])
			}
		}
		if got := s.member(t); got != joined {
			t.Errorf("member's create revision: got %d, want %d: the lease was kept", got, joined)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

func (s *solo) member(t *testing.T) int64 {
	t.Helper()
	e, err := s.client.Get(t.Context(), layout.For(accounts).Member("solo"))
	if err != nil {
		t.Fatal(err)
	}
	return e.Created
}

// TestCase_etcd15247_ClaimGoneEndsTheTenure: renewals go on as if nothing were, but the watch shows that the claim
// is gone.
func TestCase_etcd15247_ClaimGoneEndsTheTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		sh := accounts.Of(key)
		err := s.node.Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
			if _, err := s.client.Commit(ctx, cas.Txn{Then: []cas.Op{cas.Delete(layout.For(accounts).Claim(sh))}}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if _, ok := errors.AsType[*owner.LostError](err); !ok {
			t.Errorf("cause of the request's context: got %v, want a LostError", err)
		}
		time.Sleep(time.Second)
		if got := len(s.ready()); got != accounts.Shards {
			t.Errorf("shards ready in the end: got %d, want %d", got, accounts.Shards)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestCase_etcd15247_MemberGoneEndsTheMembership: the member record is gone while the lease lives: everything ends, and
// the node joins again.
func TestCase_etcd15247_MemberGoneEndsTheMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		before := s.ready()
		if _, err := s.client.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Delete(layout.For(accounts).Member("solo"))}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		after := s.ready()
		if len(after) != accounts.Shards {
			t.Errorf("shards ready in the end: got %d, want %d", len(after), accounts.Shards)
		}
		for sh, e := range after {
			if e <= before[sh] {
				t.Errorf("I2: epoch of shard %d: got %v after %v", sh, e, before[sh])
			}
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestCase_etcd19091_TrustCountsFromTheSend: the renewal arrives, its reply takes long. Trust must not be longer for it.
func TestCase_etcd19091_TrustCountsFromTheSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		const late = 3 * time.Second
		s.client.Intercept(func(c memkv.Call) memkv.Fate {
			if c.Kind == memkv.Renew {
				return memkv.Fate{Reply: late}
			}
			return memkv.Fate{}
		})
		time.Sleep(10 * time.Second) // what was renewed before the replies got slow counts no more
		most := time.Duration(0)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			most = max(most, s.node.Status().Trust)
		}
		if most > 9*time.Second-late {
			t.Errorf("trust left, at most: got %v, want no more than TTL minus margin minus the %v that replies take", most, late)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestCase_dynamolock280_LostRenewalReplyIsNoLoss: renewals are applied and their replies lost, for a while: the tenure
// goes on until trust really ends.
func TestCase_dynamolock280_LostRenewalReplyIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		before := s.ready()
		var n atomic.Int32
		s.client.Intercept(func(c memkv.Call) memkv.Fate {
			if c.Kind == memkv.Renew && n.Add(1)%3 != 0 { // two of three
				return memkv.Fate{Loss: memkv.Reply}
			}
			return memkv.Fate{}
		})
		time.Sleep(10 * time.Minute)
		for sh, e := range s.ready() {
			if before[sh] != e {
				t.Errorf("shard %d: epoch %v, was %v: the tenure did not go on", sh, e, before[sh])
			}
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestBlindRenewalIsNoTrust: a node that can renew but not see is not fit to own.
func TestBlindRenewalIsNoTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		other := s.server.Client()
		defer other.Close()
		s.client.Lag(time.Hour) // watches show nothing any more, and lists don't pass; renewals do
		s.client.Intercept(func(c memkv.Call) memkv.Fate {
			if c.Kind == memkv.List {
				return memkv.Fate{Loss: memkv.Connection}
			}
			return memkv.Fate{}
		})
		for range 20 {
			time.Sleep(time.Second)
			if _, err := other.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put(layout.For(accounts).Drain("nobody"), layout.Encode(layout.Drain{Format: layout.Format}))}}); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.node.Status().Trust; got != 0 {
			t.Errorf("trust of a node that sees nothing: got %v, want 0", got)
		}
		s.client.Lag(0)
		s.client.Intercept(nil)
		s.client.Break(cas.ErrNoLeader)
		time.Sleep(20 * time.Second)
		if got := len(s.ready()); got != accounts.Shards {
			t.Errorf("shards ready once it sees again: got %d, want %d", got, accounts.Shards)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestCase_etcd16028_RestoreIsFatalUntilTheLineageIsRaised: revisions that turn back end the node with an error that says
// what to do, and after it epochs are above all before.
func TestCase_etcd16028_RestoreIsFatalUntilTheLineageIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		backup := s.server.Backup()
		for range 50 { // life goes on after the backup
			if _, err := s.client.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Delete(layout.For(accounts).Claim(accounts.Of(key)))}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		before := s.ready()
		s.server.Restore(backup, 0)
		err := <-s.ended
		got, ok := errors.AsType[*owner.RestoredError](err)
		if !ok || got.Now > got.Was {
			t.Fatalf("Run after the store went back: got %v, want a RestoredError", err)
		}
		s.client.Close()

		fresh := s.server.Client()
		defer fresh.Close()
		time.Sleep(20 * time.Second) // what the backup held of the member expires
		if err := owner.NewAdmin(fresh, accounts).RaiseLineage(t.Context(), 31); err != nil {
			t.Fatal(err)
		}
		n, err := owner.New(fresh, accounts, serve, owner.Config{ID: "solo", Settle: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.Run(ctx) }()
		time.Sleep(time.Second)
		shards := n.Status().Shards
		if len(shards) != accounts.Shards {
			t.Errorf("shards after the restart: got %d, want %d", len(shards), accounts.Shards)
		}
		for _, ev := range shards {
			if e := ev.Token.Epoch; e <= before[ev.Token.Shard] || e.Lineage() != 32 {
				t.Errorf("I2: epoch of shard %d: got %v after %v", ev.Token.Shard, e, before[ev.Token.Shard])
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestRaiseLineageLive: members live on, under higher epochs, and requests just wait.
func TestRaiseLineageLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 2, accounts, serve, owner.Config{})
		before := c.Tenure(key)
		at := c.Owner(key)
		admin := owner.NewAdmin(c.Store, accounts)
		if err := admin.RaiseLineage(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		<-before.Draining()
		err := c.Nodes[at].Do(t.Context(), key, func(_ context.Context, tn *owner.Tenure) error {
			if got := tn.Token().Epoch; got.Lineage() != 5 {
				t.Errorf("epoch after the raise: got %v, want lineage 5", got)
			}
			return nil
		})
		if err != nil {
			t.Errorf("a request meanwhile: got %v, want it to wait", err)
		}
		c.Settle()
		if err := before.Err(); err != owner.ErrHandoff {
			t.Errorf("the tenure before: got %v, want ErrHandoff: it ended in good order", err)
		}
	})
}

// TestNoSpace: a full store costs no tenure, and no drain is begun that could not be finished.
func TestNoSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 2, accounts, serve, owner.Config{})
		tn := c.Tenure(key)
		c.Store.Server().SetFull(true)
		time.Sleep(5 * time.Minute)
		if err := tn.Err(); err != nil {
			t.Errorf("the tenure after 5 minutes of a full store: got %v, want it to go on", err)
		}
		c.Store.Server().SetFull(false)
		c.Move(key, 1-c.Owner(key))
	})
}

// TestCase_vitess8309_NeverAdmittedWithoutError: a cancelled wait is an error, never a tenure that is not there.
func TestCase_vitess8309_CancelledWaitIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSolo(t, serve, owner.Config{})
		s.client.Cut(true)
		time.Sleep(20 * time.Second) // lost; the claim was this node's as far as it knows, so requests wait
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		inner, exit, err := s.node.Enter(ctx, key)
		if err == nil || exit == nil {
			t.Errorf("Enter with a cancelled context: got error %v, exit nil %v, want an error and an exit", err, exit == nil)
		}
		if _, err := owner.From(inner); err == nil {
			t.Error("the context of a refused call carries a tenure")
		}
		exit()
		s.client.Cut(false)
		time.Sleep(5 * time.Second)
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}
