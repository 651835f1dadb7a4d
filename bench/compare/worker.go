package compare

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
)

// worker names the environment variable that tells a process that it is one, and which contender is its.
const worker = "TENURE_COMPARE_WORKER"

// A worker writes a record for each step of a request to file descriptor 3, in one write of less than PIPE_BUF each, so that
// those of several clients don't mix and what a killed worker had told is complete.
const (
	began  = 'b'
	acked  = 'a' // its latency follows
	failed = 'f' // likewise
	says   = 'e' // what a request was told that failed: the text's length follows, and the text. Once for each worker
)

// longestText keeps a record with its text below PIPE_BUF, which is at least 512.
const longestText = 400

const recordSize = 5 // kind, microseconds

func record(kind byte, took time.Duration) []byte {
	b := make([]byte, recordSize)
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(max(1, took.Microseconds())))
	return b
}

func text(err error) []byte {
	s := err.Error()
	s = s[:min(len(s), longestText)]
	b := make([]byte, recordSize, recordSize+len(s))
	b[0] = says
	binary.BigEndian.PutUint32(b[1:], uint32(len(s)))
	return append(b, s...)
}

// order is what a worker is told: "CONTENDER CLIENTS".
func order(contender, clients int) string { return fmt.Sprint(contender, " ", clients) }

// work is a worker's turn: until stdin is closed, or the process that started it has gone.
func work(ctx context.Context, c Config, cs []Contender, order string) error {
	var contender, clients int
	if _, err := fmt.Sscan(order, &contender, &clients); err != nil || contender < 0 || contender >= len(cs) {
		return fmt.Errorf("compare: worker told %q: does main come to the same call of Run each time?", order)
	}
	out := os.NewFile(3, "records")
	defer out.Close()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	do, pick := c.doer(cs[contender]), measure.Zipf(c.Skew, c.Accounts)
	var (
		wg    sync.WaitGroup
		first sync.Once
	)
	for range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := out.Write(record(began, 0)); err != nil {
					return // nobody counts any more
				}
				start := time.Now()
				kind := byte(acked)
				if err := do(ctx, pick(random)); err != nil {
					kind = failed
					first.Do(func() { _, _ = out.Write(text(err)) })
				}
				if _, err := out.Write(record(kind, time.Since(start))); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return nil
}
