package kafka

import (
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Start says where a shard begins that has no position yet. The zero value is the earliest record that is kept. At most one
// field may be set.
type Start struct {
	Latest bool      // what is produced from now on
	Time   time.Time // the first record of this time or later; the end if there is none
	Offset int64     // the same in every partition
}

// ConsumerConfig configures a Consumer. The zero value needs brokers, in Client.
type ConsumerConfig struct {
	// Client is for the broker's addresses, TLS, SASL, hooks and all else of kgo. What decides where and whether to consume (groups,
	// topics, offsets) is the Consumer's own. FetchMaxWait is 20ms unless given here: a shard that comes waits that long for the fetch
	// under way, while others are idle. FetchIsolationLevel is for topics that are produced to in transactions.
	Client []kgo.Opt

	Start    Start
	MaxBatch int           // most records in a batch. Defaults to 500
	MaxDelay time.Duration // how long a batch that isn't full waits for more. Defaults to 0: not at all; under load batches grow by themselves
	Buffer   int           // bytes fetched and not processed, of each shard, from which on its partition is paused. Defaults to 4 MiB; a fetch is bounded as compressed, so the last may bring more
	Tries    int           // of a record that fails alone, with growing back-off. Defaults to 5

	// DeadLetter is the topic for records that are given up on, with headers of where and why. Defaults to "": the shard stops there,
	// tries again every 30s, and says so.
	DeadLetter string

	// LagGroup is a Kafka consumer group to which positions are committed too, for tools that watch lag. Never read. It must have
	// no members.
	LagGroup string

	// AnyKey consumes records whose key is not of the shard. Without it such a record is bad: somebody produces with another hash, and
	// requests for that key go to another process.
	AnyKey bool

	Logger *slog.Logger // Defaults to silence
	Hooks  Hooks
}

// Hooks are called from the goroutines that consume and hold them up. Nil ones are skipped.
type Hooks struct {
	Batch   func(shard, records int, took time.Duration, err error) // each call of Process
	Dead    func(r *kgo.Record, err error)                          // r has been produced to the dead-letter topic
	Stopped func(shard int, err error)                              // the shard stands still because of err, and will be tried again; nil: it goes on
}

const (
	defaultMaxBatch = 500
	defaultBuffer   = 4 << 20
	defaultTries    = 5
)

func (c ConsumerConfig) withDefaults() (ConsumerConfig, error) {
	var errs []error
	for _, f := range []struct {
		name string
		v    *int
		def  int
	}{
		{"MaxBatch", &c.MaxBatch, defaultMaxBatch},
		{"Buffer", &c.Buffer, defaultBuffer},
		{"Tries", &c.Tries, defaultTries},
	} {
		switch {
		case *f.v == 0:
			*f.v = f.def
		case *f.v < 0:
			errs = append(errs, refused("ConsumerConfig.%s: %d: want at least 1, or 0 for %d", f.name, *f.v, f.def))
		}
	}
	if c.MaxDelay < 0 {
		errs = append(errs, refused("ConsumerConfig.MaxDelay: %s: want 0 or more", c.MaxDelay))
	}
	set := 0
	for _, is := range []bool{c.Start.Latest, !c.Start.Time.IsZero(), c.Start.Offset != 0} {
		if is {
			set++
		}
	}
	if set > 1 {
		errs = append(errs, refused("ConsumerConfig.Start: %+v: set one of Latest, Time and Offset", c.Start))
	}
	if c.Start.Offset < 0 {
		errs = append(errs, refused("ConsumerConfig.Start.Offset: %d: want at least 0", c.Start.Offset))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}
