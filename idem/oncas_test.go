package idem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/idemtest"
)

// TestConformance runs over a store in memory, on virtual time.
func TestConformance(t *testing.T) {
	idemtest.Suite{Open: openMemory, Bubble: synctest.Test}.Run(t)
}

func openMemory(*testing.T) idemtest.Harness {
	server := memkv.NewServer(memkv.Config{})
	begun, step := time.Now(), time.Duration(0)
	return idemtest.Harness{
		Open: func(t testing.TB) idem.Store {
			c := server.Client()
			t.Cleanup(func() { _ = c.Close() })
			c.SetClock(func() time.Duration { return time.Since(begun) + step })
			return idem.OnCAS(c, "")
		},
		Elapse: func(_ testing.TB, d time.Duration) { time.Sleep(d) },
		Step:   func(_ testing.TB, d time.Duration) { step += d },
	}
}
