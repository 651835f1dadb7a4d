package idem

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/kafkaidem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

var payments = shard.Group{Name: "payments", Shards: 1}

// third is a third party that honours idempotency keys.
type third struct {
	mu    sync.Mutex     // guards asked
	asked map[string]int // by key: what is asked under one key it does once
}

func (p *third) charge(_ context.Context, key string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[key]++
	return "charged", nil
}

func (p *third) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.asked)
}

// payer consumes payments as one process would: on a connection of its own to the store, of which crash is where it breaks.
type payer struct {
	t     testing.TB
	seeds kgo.Opt
	third *third
	crash string // "charged", "recorded" or ""
}

// run consumes until the test ends. The position it has stored is sent on stored.
func (p *payer) run(store *memkv.Server, stored chan<- int64) {
	t := p.t
	t.Helper()
	client := store.Client()
	engine, err := idem.New(idem.OnCAS(client, ""), idem.Config{Finish: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	die := func(at string) {
		if p.crash == at {
			client.Cut(true)
		}
	}
	pay := func(ctx context.Context, op *idem.Op) error {
		_, err := idem.Step(ctx, op, "charge", func(ctx context.Context, key string) (string, error) {
			defer die("charged")
			return p.third.charge(ctx, key)
		})
		return err
	}
	open := func(ctx context.Context, tenure *owner.Tenure) (kafka.Partition, error) {
		positions := kafka.OnStore(client, "/positions", kafka.Stream(ctx))
		from, err := positions.Load(ctx, tenure)
		return kafka.Partition{From: from, Process: func(ctx context.Context, recs []*kgo.Record) error {
			for _, r := range recs {
				if err := kafkaidem.Do(ctx, engine, tenure.Token(), r, pay); err != nil {
					return err
				}
			}
			die("recorded")
			next := kafka.Next(recs)
			if err := positions.Save(ctx, tenure, next); err != nil {
				return err
			}
			stored <- next
			return nil
		}}, err
	}
	consumer, err := kafka.NewConsumer(t.Context(), payments, "payments", open, kafka.ConsumerConfig{Client: []kgo.Opt{p.seeds}})
	if err != nil {
		t.Fatal(err)
	}
	node, err := owner.New(client, payments, consumer.Serve, owner.Config{TTL: 2 * time.Second, Settle: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { _ = node.Run(ctx) })
	t.Cleanup(func() {
		client.Cut(false)
		leave()
		ran.Wait()
		_ = client.Close()
		_ = consumer.Close()
	})
}

// An owner that dies between the charge and the position leaves the record to the next one, and the customer is charged once.
// Named by its producer a record is one operation even if it was sent twice.
func TestKafka_RedeliveredRecordIsChargedOnce(t *testing.T) {
	for _, crash := range []string{"charged", "recorded"} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, named by its producer: %t", crash, named), func(t *testing.T) {
				cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cluster.Close)
				seeds := kgo.SeedBrokers(cluster.ListenAddrs()...)
				producer, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kafka.Partitioner(payments)))
				if err != nil {
					t.Fatal(err)
				}
				defer producer.Close()
				var recs []*kgo.Record
				for range 2 {
					r := &kgo.Record{Topic: "payments", Key: []byte("alice"), Value: []byte("30 EUR")}
					if named {
						r.Headers = []kgo.RecordHeader{{Key: kafkaidem.Header, Value: []byte("payment-17")}}
					}
					recs = append(recs, r)
				}
				if err := producer.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
					t.Fatal(err)
				}

				store, stored := memkv.NewServer(memkv.Config{}), make(chan int64, 10)
				bank := &third{asked: make(map[string]int)}
				dying := &payer{t: t, seeds: seeds, third: bank, crash: crash}
				dying.run(store, stored)
				charges := 2
				if named {
					charges = 1
				}
				asked := func() (n int) {
					for _, k := range bank.counts() {
						n += k
					}
					return n
				}
				eventually(t, "the first owner has charged", func() bool { return asked() > 0 })
				heir := &payer{t: t, seeds: seeds, third: bank}
				heir.run(store, stored)
				eventually(t, "the next owner has stored the position after both", func() bool {
					select {
					case next := <-stored:
						return next == 2
					default:
						return false
					}
				})
				counts := bank.counts()
				if len(counts) != charges {
					t.Errorf("charges: got %v, want %d", counts, charges)
				}
				again := charges + 1 // asked once more under the same key, since nobody had recorded it
				if crash == "recorded" {
					again = charges
				}
				if asked() != again {
					t.Errorf("requests to the third party: got %v, want %d in all", counts, again)
				}
			})
		}
	}
}

func eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !met() {
		select {
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
