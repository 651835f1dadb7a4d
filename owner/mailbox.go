package owner

import (
	"sync"

	"github.com/tenure-go/tenure/owner/internal/machine"
)

// mailbox takes events for the node's loop. Posting never blocks, so that a handler, a watch and a reply
// can post whatever the loop does; what is in it is bounded by what the machine has asked for and by the
// store's rate of change. The zero value is invalid; see newMailbox.
type mailbox struct {
	mu     sync.Mutex // guards events
	events []machine.Event
	wake   chan struct{}
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (b *mailbox) post(ev machine.Event) {
	b.mu.Lock()
	b.events = append(b.events, ev)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take empties the box into buf[:0]; the box keeps buf's old array.
func (b *mailbox) take(buf []machine.Event) []machine.Event {
	clear(buf)
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = buf[:0]
	return events
}
