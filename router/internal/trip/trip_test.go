package trip

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is what a test says.
type table struct {
	mu      sync.Mutex
	member  *shard.Member
	epoch   shard.Epoch
	id      string
	changed chan struct{}
}

func newTable(id string) *table {
	return &table{id: "g1", member: &shard.Member{ID: id, Address: id + ":1"}, epoch: 10, changed: make(chan struct{})}
}

func (t *table) Owner(string) (*shard.Member, shard.Epoch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.member, t.epoch
}

func (t *table) GroupID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id
}

func (t *table) Changed(string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

func (t *table) Group() shard.Group { return shard.Group{Name: "accounts", Shards: 1}.WithDefaults() }

func (t *table) set(id string, epoch shard.Epoch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.member, t.epoch = nil, epoch
	if id != "" {
		t.member = &shard.Member{ID: id, Address: id + ":1"}
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

func config(t *table) Config {
	return Config{Table: t, Target: func(m shard.Member) string { return m.Address }, Tries: 4, Wait: 5 * time.Second}
}

func next(t *testing.T, tr *Trip, want string) Stop {
	t.Helper()
	at, err := tr.Next(t.Context())
	if err != nil || at.Target != want {
		t.Fatalf("next: got %q, %v; want %q", at.Target, err, want)
	}
	return at
}

// bubble is a test on virtual time.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

func TestRefusalLeadsOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := New(config(newTable("a")), "k")
		at := next(t, tr, "a:1")
		if at.Epoch != 10 || at.GroupID != "g1" {
			t.Errorf("got %+v, want epoch 10 of g1", at)
		}
		tr.Refused(at, shard.Member{ID: "b", Address: "b:1"}, 11)
		began := time.Now()
		if err := tr.Rest(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("rested %v, %v; want none after a first refusal that says where to go", time.Since(began), err)
		}
		at = next(t, tr, "b:1")
		tr.Refused(at, shard.Member{}, 0)
		if err := tr.Rest(t.Context()); err != nil || time.Since(began) < firstRest/2 || time.Since(began) > 4*firstRest {
			t.Errorf("rested %v, %v; want some time around %v", time.Since(began), err, 2*firstRest)
		}
	})
}

// A refuted belief, and all that is older, is not tried again; the same claim at another address is.
func TestRefutedIsNotAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tb := newTable("a")
		tr := New(config(tb), "k")
		tr.Refused(next(t, tr, "a:1"), shard.Member{ID: "old", Address: "old:1"}, 9)
		time.AfterFunc(time.Second, func() { tb.set("b", 10) })
		tr.Refused(next(t, tr, "b:1"), shard.Member{}, 0)
		began := time.Now()
		if _, err := tr.Next(t.Context()); !errors.Is(err, ErrRefused) {
			t.Errorf("got %v, want the refusal", err)
		}
		if got := time.Since(began); got != 4*time.Second {
			t.Errorf("waited %v, want until Wait was over", got)
		}
	})
}

func TestTriesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := New(config(newTable("a")), "k")
		for i := range 4 {
			at, err := tr.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tr.Refused(at, shard.Member{ID: "x", Address: "x:1"}, shard.Epoch(100+i))
			if err := tr.Rest(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tr.Next(t.Context()); !errors.Is(err, ErrRefused) {
			t.Errorf("a fifth: got %v, want the refusal", err)
		}
	})
}

// An address that can't be reached is tried again: its node may be about to come up.
func TestUnreachedIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tb := newTable("a")
		tr := New(config(tb), "k")
		down := errors.New("no route")
		tr.Unreached(next(t, tr, "a:1"), down)
		if err := tr.Rest(t.Context()); err != nil {
			t.Fatal(err)
		}
		tr.Unreached(next(t, tr, "a:1"), down)
		time.AfterFunc(0, func() { tb.set("b", 11) }) // also ends the rest
		if err := tr.Rest(t.Context()); err != nil {
			t.Fatal(err)
		}
		next(t, tr, "b:1")
	})
}

func TestWaitsForAnOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tb := newTable("")
		tb.set("", 0)
		tr := New(config(tb), "k")
		time.AfterFunc(time.Second, func() { tb.set("a", 12) })
		next(t, tr, "a:1")

		tb.set("", 0)
		_, err := New(config(tb), "k").Next(t.Context())
		if _, ok := errors.AsType[*owner.NotOwnerError](err); !ok {
			t.Errorf("got %v, want NotOwnerError", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		if _, err := New(config(tb), "k").Next(ctx); !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause", err)
		}
	})
}

// Without the group's ID nobody is asked: a node might refuse what has none.
func TestGroupIDIsAwaited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tb := newTable("a")
		tb.id = ""
		tr := New(config(tb), "k")
		time.AfterFunc(time.Second, func() {
			tb.mu.Lock()
			tb.id = "g2"
			tb.mu.Unlock()
			tb.set("a", 12)
		})
		if at := next(t, tr, "a:1"); at.GroupID != "g2" {
			t.Errorf("got group %q, want g2", at.GroupID)
		}
	})
}

func TestNoAddress(t *testing.T) {
	tb := newTable("a")
	tb.member.Address = ""
	if _, err := New(config(tb), "k").Next(t.Context()); !errors.Is(err, ErrNoAddress) {
		t.Errorf("got %v, want ErrNoAddress", err)
	}
}

// Of an owner that a refusal names only ID and Address are known. Where a Target needs more, the table's word is waited for.
func TestHalfKnownOwnerIsAwaited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tb := newTable("a")
		tb.member.Meta = map[string]string{"rpc": "a:2"}
		c := config(tb)
		c.Target = func(m shard.Member) string { return m.Meta["rpc"] }
		tr := New(c, "k")
		at := next(t, tr, "a:2")
		tr.Refused(at, shard.Member{ID: "b", Address: "b:1"}, 11)
		time.AfterFunc(time.Second, func() {
			tb.mu.Lock()
			tb.member = &shard.Member{ID: "b", Address: "b:1", Meta: map[string]string{"rpc": "b:2"}}
			tb.epoch = 11
			close(tb.changed)
			tb.changed = make(chan struct{})
			tb.mu.Unlock()
		})
		next(t, tr, "b:2")
	})
}
