package linear

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed only (memkv)")
	seedsFlag = flag.Int("seeds", 1000, "how many seeds to run (memkv)")
	forFlag   = flag.Duration("for", 3*time.Second, "how long the load lasts (etcd)")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seeds are the seeds to run.
func seeds() []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	n := *seedsFlag
	if testing.Short() {
		n = min(n, 100)
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i) + 1
	}
	return all
}
