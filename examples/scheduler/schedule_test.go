package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary notes what the job did, on all nodes.
type diary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// minutely is a schedule whose job takes 20 s: it prepares, waits, and sends.
func minutely(t *testing.T, store cas.Store, d *diary) *Schedule {
	t.Helper()
	engine, err := idem.New(idem.OnCAS(store, "/idem"), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &Schedule{
		Name: "billing", Store: store, Engine: engine, Logger: slog.New(slog.DiscardHandler),
		Next: func(after time.Time) time.Time { return after.Truncate(time.Minute).Add(time.Minute) },
		Job: func(ctx context.Context, op *idem.Op, at time.Time) error {
			minute := at.UTC().Format("15:04")
			_, err := idem.Step(ctx, op, "prepare", func(context.Context, string) (int, error) {
				d.write("%s prepared", minute)
				return 1, nil
			})
			if err != nil {
				return err
			}
			timer := time.NewTimer(20 * time.Second)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			_, err = idem.Step(ctx, op, "send", func(context.Context, string) (int, error) {
				d.write("%s sent", minute)
				return 1, nil
			})
			return err
		},
	}
}

// TestEachTimeRunsOnce: over a loss in the middle of a job and a hand-off in the middle of another, each planned time is prepared
// and sent once, in order.
func TestEachTimeRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which begins at midnight
		server := memkv.NewServer(memkv.Config{})
		var d diary
		var nodes sync.WaitGroup
		owned := make(chan int, 100)
		var clients [3]*memkv.Client
		var leave [3]context.CancelFunc
		for i := range clients {
			clients[i] = server.Client()
			s := minutely(t, clients[i], &d)
			serve := func(ctx context.Context, tenure *owner.Tenure) error {
				owned <- i
				return s.Serve(ctx, tenure)
			}
			node, err := owner.New(clients[i], shard.Single("billing"), serve, owner.Config{ID: fmt.Sprint("node-", i)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			leave[i] = cancel
			nodes.Go(func() {
				if err := node.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		at := func(minute, second int) {
			time.Sleep(time.Until(time.Date(2000, 1, 1, 0, minute, second, 0, time.UTC)))
		}
		first := <-owned
		at(1, 10)
		clients[first].Cut(true)
		second := <-owned
		clients[first].Cut(false)
		at(3, 10)
		leave[second]()
		third := <-owned
		if first == second || second == third {
			t.Errorf("owners %d, %d, %d: each but the first replaces another", first, second, third)
		}
		at(4, 50)
		for i := range clients {
			leave[i]()
		}
		nodes.Wait()
		for i := range clients {
			_ = clients[i].Close()
		}

		d.mu.Lock()
		defer d.mu.Unlock()
		want := []string{
			"00:01 prepared", "00:01 sent", "00:02 prepared", "00:02 sent",
			"00:03 prepared", "00:03 sent", "00:04 prepared", "00:04 sent",
		}
		if diff := cmp.Diff(want, d.lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
