package compare

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// processes is how many a contender's clients are spread over.
const processes = 3

// crew is the processes of one contender's turn, and what they tell.
type crew struct {
	contender, clients int

	mu       sync.Mutex // guards what follows, which several processes' readers add to
	hist     *hdrhistogram.Histogram
	began    int64
	acked    int64
	failed   int64
	last     time.Time
	stall    time.Duration
	first    error // what the first request that failed was told
	troubles []error
}

type member struct {
	cmd    *exec.Cmd
	in     io.Closer
	stderr bytes.Buffer
	read   chan struct{} // closed once all that it told was counted
}

func (c *crew) hire() (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	records, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	defer theirs.Close()
	m := &member{cmd: exec.Command(self, os.Args[1:]...), read: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), worker+"="+order(c.contender, c.clients))
	m.cmd.ExtraFiles = []*os.File{theirs}
	m.cmd.Stderr = &m.stderr
	if m.in, err = m.cmd.StdinPipe(); err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		records.Close()
		return nil, fmt.Errorf("compare: start a worker: %w", err)
	}
	go func() {
		defer close(m.read)
		defer records.Close()
		for b := make([]byte, recordSize); ; {
			if _, err := io.ReadFull(records, b); err != nil {
				return
			}
			n := binary.BigEndian.Uint32(b[1:])
			if b[0] == says {
				text := make([]byte, min(n, longestText))
				if _, err := io.ReadFull(records, text); err != nil {
					return
				}
				c.fault(string(text))
				continue
			}
			c.count(b[0], int64(n))
		}
	}()
	return m, nil
}

func (c *crew) count(kind byte, micros int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == began {
		c.began++
		return
	}
	now := time.Now()
	if !c.last.IsZero() {
		c.stall = max(c.stall, now.Sub(c.last))
	}
	c.last = now
	_ = c.hist.RecordValue(min(micros, time.Minute.Microseconds()))
	if kind == acked {
		c.acked++
	} else {
		c.failed++
	}
}

func (c *crew) fault(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil {
		c.first = errors.New(text)
	}
}

// patience is how long a worker may take to finish what it has begun.
const patience = 30 * time.Second

// leave lets a worker finish, and kills it if it does not.
func (m *member) leave() error {
	_ = m.in.Close()
	timer := time.AfterFunc(patience, func() { _ = m.cmd.Process.Kill() })
	defer timer.Stop()
	<-m.read
	if err := m.cmd.Wait(); err != nil {
		return fmt.Errorf("compare: worker: %w: %s", err, strings.TrimSpace(m.stderr.String()))
	}
	return nil
}

// kill ends a worker at once, stopped or not.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.in.Close()
	<-m.read
	_ = m.cmd.Wait()
}

// turn lets the crew work for d, with one process stopped from the first quarter to the second, and one killed and
// replaced after the third.
func (c *crew) turn(ctx context.Context, d time.Duration) error {
	var members []*member
	defer func() {
		for _, m := range members {
			if err := m.leave(); err != nil {
				c.troubles = append(c.troubles, err)
			}
		}
	}()
	for range processes {
		m, err := c.hire()
		if err != nil {
			return err
		}
		members = append(members, m)
	}
	for _, act := range []func() error{
		func() error { return pause(members[0].cmd.Process) },
		func() error { return resume(members[0].cmd.Process) },
		func() error {
			members[1].kill()
			m, err := c.hire()
			if err != nil {
				members = append(members[:1], members[2:]...)
				return err
			}
			members[1] = m
			return nil
		},
		func() error { return nil },
	} {
		err := wait(ctx, d/4)
		if err == nil {
			err = act()
		}
		if err != nil {
			_ = resume(members[0].cmd.Process)
			return err
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
