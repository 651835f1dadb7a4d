package kafka

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetchWait is how long a broker holds back a fetch that finds nothing. A partition that is added takes part in the next fetch,
// and while others are idle the one under way lasts that long: kgo's default of 5 s would be the gap of each move.
const fetchWait = 20 * time.Millisecond

// removeAfter is how long a partition that nobody consumes any more is only paused. To remove one, kgo drops its connection and what
// is under way for all others; so those that go at about the same time are removed at once.
const removeAfter = time.Second

// stream consumes partitions of one topic, which come and go, by one client. One goroutine, run, adds and removes partitions,
// polls, and hands on what comes, one after another: so a record that was fetched for one feed never reaches the
// partition's next one.
type stream struct {
	client *kgo.Client
	topic  string

	mu      sync.Mutex // guards the fields below
	changes []change
	wake    context.CancelFunc // ends the poll under way
}

type change struct {
	feed *feed
	add  bool
}

// add begins to consume a partition. remove must have been called for the feed before it.
func (s *stream) add(f *feed) { s.post(change{f, true}) }

// remove ends it. What is fetched later reaches no feed.
func (s *stream) remove(f *feed) { s.post(change{f, false}) }

// nudge has run look at the feeds again.
func (s *stream) nudge() { s.post() }

func (s *stream) post(c ...change) {
	s.mu.Lock()
	s.changes = append(s.changes, c...)
	wake := s.wake
	s.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// next takes the changes that wait, and leaves wake for those that come later.
func (s *stream) next(wake context.CancelFunc) []change {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.changes
	s.changes, s.wake = nil, wake
	return changes
}

// run polls until ctx ends.
func (s *stream) run(ctx context.Context) {
	l := &polling{stream: s, feeds: make(map[int32]*feed), idle: make(map[int32]bool)}
	for ctx.Err() == nil {
		l.turn(ctx)
	}
	// The client must have nothing left to fetch when it is closed: an update of its metadata that is under way then would
	// begin to, beside the close.
	for p := range l.feeds {
		l.idle[p] = true
	}
	l.clear(slices.Collect(maps.Keys(l.idle)))
}

// polling is run's own.
type polling struct {
	*stream
	feeds    map[int32]*feed
	idle     map[int32]bool // paused, to be removed
	lastIdle time.Time      // when one last became so
}

func (l *polling) turn(ctx context.Context) {
	poll, cancel := context.WithCancel(ctx)
	defer cancel()
	l.apply(l.next(cancel))
	l.resume()
	if len(l.idle) > 0 {
		left := removeAfter - time.Since(l.lastIdle)
		if left <= 0 {
			l.clear(slices.Collect(maps.Keys(l.idle)))
		} else {
			defer time.AfterFunc(left, cancel).Stop()
		}
	}
	var pause []int32
	l.client.PollFetches(poll).EachPartition(func(p kgo.FetchTopicPartition) {
		f := l.feeds[p.Partition]
		if f == nil || p.Topic != l.topic {
			return // gone meanwhile; or the injected error of a poll that was ended
		}
		if f.put(p.Records, p.HighWatermark, p.Err) {
			pause = append(pause, p.Partition)
		}
	})
	if len(pause) > 0 {
		l.client.PauseFetchPartitions(map[string][]int32{l.topic: pause})
	}
}

// apply makes changes, in order. Neighbours of a kind go together.
func (l *polling) apply(changes []change) {
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].add == changes[0].add {
			n++
		}
		if changes[0].add {
			l.begin(changes[:n])
		} else {
			l.end(changes[:n])
		}
		changes = changes[n:]
	}
}

func (l *polling) begin(changes []change) {
	var again []int32
	offsets := make(map[int32]kgo.Offset, len(changes))
	for _, c := range changes {
		p := c.feed.partition
		if l.idle[p] || l.feeds[p] != nil {
			again = append(again, p)
		}
		l.feeds[p] = c.feed
		offsets[p] = kgo.NewOffset().At(c.feed.from).WithEpoch(c.feed.epoch)
	}
	l.clear(again)
	l.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: offsets})
}

func (l *polling) end(changes []change) {
	var gone []int32
	for _, c := range changes {
		if p := c.feed.partition; l.feeds[p] == c.feed {
			delete(l.feeds, p)
			l.idle[p] = true
			gone = append(gone, p)
		}
	}
	if len(gone) > 0 {
		l.lastIdle = time.Now()
		l.client.PauseFetchPartitions(map[string][]int32{l.topic: gone})
	}
}

// clear has the client forget partitions, and that they were paused: a pause outlives the removal.
func (l *polling) clear(partitions []int32) {
	if len(partitions) == 0 {
		return
	}
	for _, p := range partitions {
		delete(l.idle, p)
	}
	l.client.RemoveConsumePartitions(map[string][]int32{l.topic: slices.Clone(partitions)})
	l.client.ResumeFetchPartitions(map[string][]int32{l.topic: partitions})
}

// resume fetches again from partitions whose feeds have run low.
func (l *polling) resume() {
	var low []int32
	for p, f := range l.feeds {
		if f.resume() {
			low = append(low, p)
		}
	}
	if len(low) > 0 {
		l.client.ResumeFetchPartitions(map[string][]int32{l.topic: low})
	}
}
