package memkv_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	storetest.Suite{
		Bubble: synctest.Test,
		Open:   open,
	}.Run(t)
}

func open(t *testing.T) storetest.Harness {
	lag := 300 * time.Millisecond
	server := memkv.NewServer(memkv.Config{ExpiryLag: lag})
	store, other := server.Client(), server.Client()
	t.Cleanup(func() {
		_ = store.Close()
		_ = other.Close()
	})
	next := func(loss memkv.Loss) func(*testing.T) {
		return func(*testing.T) {
			store.Intercept(func(memkv.Call) memkv.Fate {
				store.Intercept(nil)
				return memkv.Fate{Loss: loss}
			})
		}
	}
	return storetest.Harness{
		Store:  store,
		Other:  other,
		MinTTL: 2 * time.Second,
		Late:   lag,
		Compact: func(t *testing.T, rev int64) {
			if err := server.Compact(rev); err != nil {
				t.Fatalf("compact: %v", err)
			}
		},
		LoseReply:   next(memkv.Reply),
		LoseRequest: next(memkv.Request),
		Cut:         store.Cut,
		Refuse: func(refuse bool) {
			if !refuse {
				store.Intercept(nil)
				return
			}
			store.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: memkv.Connection} })
		},
		Fill: func(_ *testing.T, full bool) { server.SetFull(full) },
	}
}
