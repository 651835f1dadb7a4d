package owner

import (
	"context"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/shard"
)

// open is a node with one open tenure and trust without end, as its gate sees it.
func open(tb testing.TB) (*Node, *Tenure) {
	tb.Helper()
	store := memkv.New()
	tb.Cleanup(func() { store.Close() })
	n, err := New(store, shard.Group{Name: "bench", Shards: 64}, func(context.Context, *Tenure) error { return nil }, Config{})
	if err != nil {
		tb.Fatal(err)
	}
	n.trust.Store(int64(n.clock.Now() + 24*time.Hour))
	s := n.group.Of("account-00000001")
	t := newTenure(n, shard.Token{Group: "bench", Shard: s, Epoch: 7})
	t.latest.Store(&Event{Token: t.token, State: Ready})
	st := n.station(s)
	st.tenure.Store(t)
	st.claimed.Store(true)
	t.gate.open()
	return n, t
}

func BenchmarkGate(b *testing.B) {
	_, t := open(b)
	b.ReportAllocs()
	for b.Loop() {
		if !t.admit() {
			b.Fatal("refused")
		}
		t.leave()
	}
}

func BenchmarkGateParallel(b *testing.B) {
	_, t := open(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !t.admit() {
				b.Error("refused")
			}
			t.leave()
		}
	})
}

func BenchmarkDo(b *testing.B) {
	n, _ := open(b)
	ctx := b.Context()
	fn := func(context.Context, *Tenure) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := n.Do(ctx, "account-00000001", fn); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnter(b *testing.B) {
	n, _ := open(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, exit, err := n.Enter(ctx, "account-00000001")
		if err != nil {
			b.Fatal(err)
		}
		exit()
	}
}

// BenchmarkClock is what of BenchmarkGate goes into reading the time.
func BenchmarkClock(b *testing.B) {
	n, _ := open(b)
	for b.Loop() {
		n.clock.Now()
	}
}
