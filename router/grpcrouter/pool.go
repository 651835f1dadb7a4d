package grpcrouter

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// pool is the connections to nodes, one for each address that was asked for lately. Safe for concurrent use.
type pool struct {
	dial []grpc.DialOption

	mu     sync.Mutex // guards what follows
	links  map[string]*link
	closed bool
	swept  time.Time
}

// link is a connection and who uses it. gRPC makes it when it is needed and again when it broke.
type link struct {
	*grpc.ClientConn
	pool *pool
	uses int       // calls under way; guarded by pool.mu
	last time.Time // when uses fell to 0; guarded by pool.mu
}

var errClosed error = &plainError{"grpcrouter: the client is closed"}

func newPool(dial []grpc.DialOption) *pool {
	return &pool{dial: dial, links: make(map[string]*link)}
}

// get is the link to an address. done must be called when the call is over; more than once does no harm.
func (p *pool) get(target string) (l *link, done func(), err error) {
	l, idle, err := p.use(target, nil)
	closeAll(idle)
	if l == nil && err == nil {
		var conn *grpc.ClientConn
		// Targets are addresses: no scheme, and no resolver but the dialer's own.
		if conn, err = grpc.NewClient("passthrough:///"+target, p.dial...); err != nil {
			return nil, nil, err
		}
		made := &link{ClientConn: conn, pool: p}
		if l, _, err = p.use(target, made); l != made {
			_ = conn.Close()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	var once atomic.Bool
	return l, func() {
		if once.CompareAndSwap(false, true) {
			p.release(l)
		}
	}, nil
}

// use counts one more call of the link to target, which is made if there is none. With neither, l is nil. It returns also the
// links that nobody has used for long, to be closed.
func (p *pool) use(target string, made *link) (l *link, idle []*link, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errClosed
	}
	l = p.links[target]
	if l == nil && made == nil {
		return nil, p.sweep(), nil
	}
	if l == nil {
		l = made
		p.links[target] = l
	}
	l.uses++
	return l, nil, nil
}

// sweep is called when a new address is asked for: in a group whose members stay nothing needs to go.
func (p *pool) sweep() (idle []*link) {
	now := time.Now()
	if now.Sub(p.swept) < idleAfter/4 {
		return nil
	}
	p.swept = now
	for target, l := range p.links {
		if l.uses == 0 && now.Sub(l.last) > idleAfter {
			delete(p.links, target)
			idle = append(idle, l)
		}
	}
	return idle
}

func (p *pool) release(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.uses--; l.uses == 0 {
		l.last = time.Now()
	}
}

// close closes all links. Calls under way end as Canceled.
func (p *pool) close() {
	p.mu.Lock()
	var all []*link
	for _, l := range p.links {
		all = append(all, l)
	}
	p.closed, p.links = true, nil
	p.mu.Unlock()
	closeAll(all)
}

func closeAll(links []*link) {
	for _, l := range links {
		_ = l.Close()
	}
}
