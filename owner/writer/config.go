package writer

import (
	"errors"
	"time"
)

// Config configures a Writer. The zero value is a good one.
type Config struct {
	// MaxBatch is how many commands Apply gets at most. Defaults to 256, at most 8192: so many can be split, one bad
	// command found, and 16 failures in a row not be reached.
	MaxBatch int

	// Queue is how many commands of a shard may wait for their batch. Defaults to 4096. Beyond it Do waits for room, in
	// order.
	Queue int

	// Wait is how long Do waits for room; then it returns ErrFull. Defaults to as long as the caller's context lets it.
	// Negative: not at all.
	Wait time.Duration

	// Drain is how long after a hand-off's beginning new batches are still applied for those who have queued from outside
	// of requests; what is left then gets ErrEnded. Defaults to 4s. Keep it below owner.Config.DrainTimeout (8s), by more
	// than a batch takes: past that the tenure's context ends, and the batch with it.
	Drain time.Duration
}

// The defaults that Config's fields name.
const (
	defaultMaxBatch = 256
	mostMaxBatch    = 8192
	defaultQueue    = 4096
	defaultDrain    = 4 * time.Second
)

// withDefaults fills in a copy, and says everything that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, refused("Config."+format, args...)) }
	if c.MaxBatch == 0 {
		c.MaxBatch = defaultMaxBatch
	}
	if c.Queue == 0 {
		c.Queue = defaultQueue
	}
	if c.Drain == 0 {
		c.Drain = defaultDrain
	}
	if c.MaxBatch < 0 || c.MaxBatch > mostMaxBatch {
		bad("MaxBatch is %d: want 1 to %d, or 0 for %d", c.MaxBatch, mostMaxBatch, defaultMaxBatch)
	}
	if c.Queue < 0 {
		bad("Queue is %d: want at least 1, or 0 for %d", c.Queue, defaultQueue)
	}
	if c.Drain < 0 {
		bad("Drain is %v: want a time above 0, or 0 for %v", c.Drain, defaultDrain)
	}
	return c, errors.Join(faults...)
}
