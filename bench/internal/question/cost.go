package question

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/writer"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// Cost is what the parts cost a request that has nothing to wait for: no server, one goroutine.
// Each is run for d, in the form of go test's -benchtime, c.Rounds times. Records of c are read besides, if there are any.
func Cost(ctx context.Context, d string, c Consumption) (*report.Table, error) {
	testing.Init() // registers the flag; a program has not
	if err := flag.Set("test.benchtime", d); err != nil {
		return nil, fmt.Errorf("question: %w", err)
	}
	t := &report.Table{
		ID: "cost", Plot: "ns", Log: true,
		Question: "What do the parts cost a request that lands on its owner and waits for nothing?",
		Conditions: "In memory (cas/memkv), one goroutine, no I/O. A channel's round trip is there to compare with. Kafka's records come over loopback, in batches, from 8 partitions. " +
			rounds(c.Rounds),
		Columns: []report.Column{{Key: "ns", Name: "ns"}, {Key: "bytes", Name: "bytes"}, {Key: "allocations", Name: "allocations"}},
	}
	store := memkv.New()
	defer store.Close()
	group := shard.Group{Name: "cost", Shards: 256}
	w := writer.New(func(context.Context, *owner.Tenure) (writer.Apply[int, int64], error) {
		return func(_ context.Context, batch []*command) error {
			for _, c := range batch {
				c.Reply(1)
			}
			return nil
		}, nil
	}, writer.Config{})
	ready := make(chan struct{}, group.Shards)
	node, err := owner.New(store, group, w.Serve, owner.Config{Settle: time.Millisecond, Hooks: owner.Hooks{Tenure: func(e owner.Event) {
		if e.State == owner.Ready {
			ready <- struct{}{}
		}
	}}})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(running) }()
	defer func() { cancel(); <-ended }()
	for range group.Shards {
		select {
		case <-ready:
		case err := <-ended:
			ended <- err
			return nil, err
		}
	}
	table, err := router.Open(ctx, store, group, nil)
	if err != nil {
		return nil, err
	}
	defer table.Close()
	for _, part := range parts(ctx, node, table, w, store) {
		row := report.Row{Name: part.name, Ours: part.ours}
		var took []float64
		for range max(1, c.Rounds) {
			r := testing.Benchmark(part.run)
			took = append(took, float64(r.T.Nanoseconds())/float64(max(1, r.N)))
			row.Set("bytes", float64(r.AllocedBytesPerOp()))
			row.Set("allocations", float64(r.AllocsPerOp()))
		}
		spread(&row, took)
		t.Rows = append(t.Rows, row)
	}
	rows, err := c.rows(ctx)
	t.Rows = append(t.Rows, rows...)
	return t, err
}

// spread puts the median into the column ns, and what it lies between beside it.
func spread(row *report.Row, took []float64) {
	s := measure.SpreadOf(took)
	row.Set("ns", s.Median)
	row.Set("ns_least", s.Least)
	row.Set("ns_most", s.Most)
	row.Say("ns", spreadText(s))
}

func rounds(n int) string {
	if n <= 1 {
		return "One round."
	}
	return fmt.Sprintf("Median of %d rounds, with the least and the most.", n)
}

type command = writer.Cmd[int, int64]

type part struct {
	name string
	ours bool
	run  func(*testing.B)
}

func parts(ctx context.Context, node *owner.Node, table *router.Table, w *writer.Writer[int, int64], store *memkv.Client) []part {
	const key = "account-12345"
	var gate fence.Gate
	var tenure *owner.Tenure
	_ = node.Do(ctx, key, func(_ context.Context, t *owner.Tenure) error { tenure = t; return nil })
	sealed := gate.Seal(ctx, tenure.Token())
	engine, made := idem.New(idem.OnCAS(store, ""), idem.Config{})
	return []part{
		{"a channel's round trip", false, roundTrip},
		{"Group.Of: key to shard", true, func(b *testing.B) {
			g := node.Group()
			for b.Loop() {
				_ = g.Of(key)
			}
		}},
		{"router.Table: key to owner", true, func(b *testing.B) {
			for b.Loop() {
				_, _ = table.Owner(key)
			}
		}},
		{"Node.Enter: the gate, in and out", true, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, exit, err := node.Enter(ctx, key)
				if err != nil {
					b.Fatal(err)
				}
				exit()
			}
		}},
		{"writer: queue, apply, reply", true, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Do(ctx, tenure, 1); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"fence.Gate: a guarded call", true, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := gate.Do(tenure.Token(), func() error { return sealed }); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"idem: first time, in memory", true, func(b *testing.B) {
			b.ReportAllocs()
			if made != nil {
				b.Fatal(made)
			}
			n := 0
			for b.Loop() {
				n++
				if err := once(ctx, engine, strconv.Itoa(n)); err != nil {
					b.Fatal(err)
				}
			}
		}},
	}
}

func roundTrip(b *testing.B) {
	ask, answer := make(chan int), make(chan int)
	go func() {
		for v := range ask {
			answer <- v
		}
	}()
	defer close(ask)
	for b.Loop() {
		ask <- 1
		<-answer
	}
}

func once(ctx context.Context, e *idem.Engine, key string) error {
	_, err := idem.Do(ctx, e, idem.Request{Scope: "cost", Key: key}, func(context.Context, *idem.Op) (int, error) { return 1, nil })
	return err
}
