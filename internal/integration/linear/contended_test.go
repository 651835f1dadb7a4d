package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

// BenchmarkContended is how fast 16 goroutines count to b.N in one key of an etcd that writes through to the
// disk, with Update and with what else there is.
//
//	go test ./internal/integration/linear -run '^$' -bench Contended -benchtime 2000x -count 3
func BenchmarkContended(b *testing.B) {
	const goroutines = 16
	server := etcdtest.Start(b, etcdtest.Config{Fsync: true})
	client := server.Client(b)
	store := etcdkv.New(client)
	defer store.Close()
	add := func(n *int) error { *n++; return nil }
	tries := cas.UpdateConfig{Tries: 1 << 20}
	for _, c := range []struct {
		name string
		inc  func(ctx context.Context, key string) error
	}{
		{"Update", func(ctx context.Context, key string) error {
			_, err := cas.Update(ctx, store, key, add, tries)
			return err
		}},
		{"UpdateAll", func(ctx context.Context, key string) error {
			_, err := cas.UpdateAll(ctx, store, "count", func(d *cas.Draft) (int, error) {
				n, err := cas.Read[int](d, key)
				if err != nil {
					return 0, err
				}
				return n + 1, cas.Write(d, key, n+1)
			}, tries)
			return err
		}},
		{"STM", func(ctx context.Context, key string) error {
			_, err := concurrency.NewSTM(client, func(s concurrency.STM) error {
				n, _ := strconv.Atoi(s.Get(key))
				s.Put(key, strconv.Itoa(n+1))
				return nil
			}, concurrency.WithAbortContext(ctx))
			return err
		}},
		{"GetThenTxn", func(ctx context.Context, key string) error { return getThenTxn(ctx, client, key) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			key := fmt.Sprintf("%s%s/%d", prefix, c.name, time.Now().UnixNano())
			var mu sync.Mutex // guards the rest
			left := b.N
			var took []time.Duration
			more := func(d time.Duration) bool {
				mu.Lock()
				defer mu.Unlock()
				if d > 0 {
					took = append(took, d)
				}
				left--
				return left >= 0
			}
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for d := time.Duration(0); more(d); {
						start := time.Now()
						if err := c.inc(b.Context(), key); err != nil {
							b.Error(err)
							return
						}
						d = time.Since(start)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			if n, _, err := cas.Get[int](b.Context(), store, key); err != nil || n != b.N {
				b.Errorf("counted to %d, %v, want %d", n, err, b.N)
			}
			slices.Sort(took)
			if len(took) > 0 {
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
}

// getThenTxn is the loop that people write.
func getThenTxn(ctx context.Context, client *clientv3.Client, key string) error {
	for {
		got, err := client.Get(ctx, key)
		if err != nil {
			return err
		}
		n, rev := 0, int64(0)
		if len(got.Kvs) > 0 {
			rev = got.Kvs[0].ModRevision
			if err := json.Unmarshal(got.Kvs[0].Value, &n); err != nil {
				return err
			}
		}
		done, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).
			Then(clientv3.OpPut(key, strconv.Itoa(n+1))).
			Commit()
		if err != nil {
			return err
		}
		if done.Succeeded {
			return nil
		}
		if ctx.Err() != nil {
			return errors.New("given up")
		}
	}
}
