package idem

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
)

// slow is a store whose Extend takes its time, whatever its context says.
type slow struct {
	Store
	begun chan struct{}
	under bool
}

func (s *slow) Extend(ctx context.Context, id string, rev int64, attempt time.Duration) error {
	s.under = true
	close(s.begun)
	time.Sleep(time.Second)
	s.under = false
	return s.Store.Extend(ctx, id, rev, attempt)
}

// Nothing of an operation runs any more when Do returns.
func TestKeeper_IsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := memkv.New()
		defer kv.Close()
		s := &slow{Store: OnCAS(kv, ""), begun: make(chan struct{})}
		e, err := New(s, Config{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Do(t.Context(), e, Request{Scope: "a", Key: "k"}, func(context.Context, *Op) (int, error) {
			<-s.begun
			return 1, nil
		})
		if got != 1 || err != nil || s.under {
			t.Errorf("got %d, %v, and the attempt was being extended still: %t", got, err, s.under)
		}
	})
}

// The timer has fired, and its goroutine gets to run only when the operation is over.
func TestKeeper_ComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{c: Config{Attempt: time.Minute}}
		k := &keeper{o: &Op{e: e, life: t.Context()}}
		k.o.over.Store(true) // so that it would go on for ever
		k.ended.Add(1)
		k.timer = time.AfterFunc(0, func() {
			time.Sleep(2 * time.Second)
			k.run()
		})
		stopped := make(chan struct{})
		time.Sleep(time.Second)
		go func() {
			k.stop()
			close(stopped)
		}()
		select {
		case <-stopped:
		case <-time.After(time.Hour):
			t.Error("it has not ended within an hour")
			k.end()
			<-stopped
		}
	})
}
