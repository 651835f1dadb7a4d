package kafka

import (
	"context"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Write is what a consuming process tells the database that it has done with a batch.
type Write struct {
	Token       shard.Token // zero: from a consumer group, which has none
	Member      string
	Partition   int32
	First, Next int64
}

// Effects is a database for consumers that are processes: it outlives them, counts what is done twice, and sees when each partition's
// effects come, and from whom. Its methods are called by net/rpc.
type Effects struct {
	gate fence.Gate

	mu    sync.Mutex // guards the fields below
	parts map[int32]*effect
	twice int64 // records whose effect came once more
	lost  int64 // records whose effect never came
}

// effect is what is known of a partition.
type effect struct {
	next   int64 // position: what is done up to here
	member string
	killed time.Time     // when its member was; zero: it lives
	gap    time.Duration // from there to the next one's first effect
}

// Seal fences older owners, and tells the position, -1 if there is none.
func (e *Effects) Seal(w Write, next *int64) error {
	if err := e.gate.Seal(context.Background(), w.Token); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	*next = -1
	if p := e.parts[w.Partition]; p != nil {
		*next = p.next
	}
	return nil
}

// syncing is how long a commit takes to be acknowledged, as on a disk.
const syncing = time.Millisecond

// Apply is one transaction: effects, and the position with them. Who has a token passes the fence first.
func (e *Effects) Apply(w Write, _ *struct{}) error {
	defer func() { <-time.After(syncing) }()
	if w.Token.IsZero() {
		e.note(w)
		return nil
	}
	return e.gate.Do(w.Token, func() error {
		e.note(w)
		return nil
	})
}

func (e *Effects) note(w Write) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.parts[w.Partition]
	if p == nil {
		p = &effect{next: w.First, member: w.Member}
		e.parts[w.Partition] = p
	}
	e.twice += max(0, min(p.next, w.Next)-w.First)
	e.lost += max(0, w.First-p.next)
	p.next = max(p.next, w.Next)
	if !p.killed.IsZero() && p.member != w.Member {
		p.gap, p.killed = time.Since(p.killed), time.Time{}
	}
	p.member = w.Member
}

// kill notes that a member is killed now, and returns what it had.
func (e *Effects) kill(member string) (parts []int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for part, p := range e.parts {
		if p.member == member {
			p.killed = now
			parts = append(parts, part)
		}
	}
	return parts
}

// gaps are the partitions' that have moved since they were killed.
func (e *Effects) gaps(parts []int32) (moved []time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, part := range parts {
		if p := e.parts[part]; p.killed.IsZero() {
			moved = append(moved, p.gap)
		}
	}
	return moved
}

// shares is how many partitions each member had last.
func (e *Effects) shares() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := make(map[string]int)
	for _, p := range e.parts {
		n[p.member]++
	}
	return n
}

// serve has processes reach e at the address that it returns, until stop.
func (e *Effects) serve(b *testing.B) (addr string, stop func()) {
	b.Helper()
	server := rpc.NewServer()
	if err := server.Register(e); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { server.ServeConn(c) }) // until the process is gone
		}
	})
	return l.Addr().String(), func() {
		l.Close()
		serving.Wait()
	}
}

// database is a process's way to Effects.
type database struct {
	client *rpc.Client
	member string
}

func (d *database) apply(w Write) error {
	w.Member = d.member
	if err := d.client.Call("Effects.Apply", w, new(struct{})); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return nil
}

func (d *database) seal(tok shard.Token) (next int64, err error) {
	err = d.client.Call("Effects.Seal", Write{Token: tok, Partition: int32(tok.Shard)}, &next)
	return next, err
}
