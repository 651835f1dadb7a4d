package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tenure-go/tenure/owner"
)

// Server is an *http.Server, or a wrapper of yours around another kind, such as a *grpc.Server. Its Serve returns
// nil or http.ErrServerClosed after Shutdown; it must return once Shutdown has, or once Close has after a Shutdown
// that overran, if there is a Close() error: the function Serve waits for it without bound. An *http.Server that
// has a TLSConfig serves TLS, with the certificates that it holds. Its BaseContext and ConnState are wrapped, to
// find connections by.
type Server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// Endpoint is a server and the TCP address that it listens on.
type Endpoint struct {
	Addr     string // as in net.Listen: ":8080"
	Server   Server
	Listener net.Listener // if set, used instead of Addr, and closed by Serve: for a port that is chosen before the node is made
}

// On is Endpoint{addr, s}.
func On(addr string, s Server) Endpoint { return Endpoint{Addr: addr, Server: s} }

// ServeConfig configures Serve.
type ServeConfig struct {
	// Linger is how long after ctx has ended requests are still taken, and forwarded: until the
	// load balancers have noticed. Defaults to 5s; negative: not at all.
	Linger time.Duration

	// Shutdown is how long requests may take after that before they are cut off. Defaults to 10s.
	Shutdown time.Duration
}

// Serve runs n and its servers in the order that fails no request, until ctx ends:
//
//  1. Listen everywhere. If that fails nothing else has begun.
//  2. Serve, and n joins: by the time it owns something its peers can reach it.
//  3. When ctx ends: n is no longer ready, and hands over every shard; at most 15 s, by its own bounds.
//  4. Meanwhile, and until Linger is over, go on serving: what comes in is forwarded.
//  5. Shut the servers down, at most for Shutdown. n is gone. Then close, on both sides, the upgraded connections
//     (WebSockets) that an HTTP here relays to other nodes: they would not end by themselves, so that is
//     no error.
//
// With defaults all that takes at most 25 s; Kubernetes gives 30. Serve returns nil if all went in
// good order, and nothing that it started is running when it returns, save handlers of yours that go on
// after their connection was closed or they have hijacked it. n is nil in a gateway. The outcome of errors of
// step 1 is cas.NotApplied.
//
// If n ends by itself, its error is returned, after step 5 without Linger. If a server fails, n
// leaves as if ctx had ended, and the server's error is returned. Requests cut off at the end are an error too.
func Serve(ctx context.Context, n *owner.Node, c ServeConfig, e ...Endpoint) error {
	if n == nil {
		return serve(ctx, nil, c, e)
	}
	return serve(ctx, n, c, e)
}

// member is what Serve needs of an *owner.Node.
type member interface{ Run(context.Context) error }

func serve(ctx context.Context, n member, c ServeConfig, e []Endpoint) error {
	c, err := c.valid(e)
	if err != nil {
		return &setupError{err}
	}
	listeners, err := listen(ctx, e)
	if err != nil {
		return &setupError{err}
	}
	s := servers{failed: make(chan error, len(e))}
	for i, end := range e {
		s.start(end, listeners[i])
	}

	run, leave := context.WithCancel(ctx)
	defer leave()
	left := make(chan error, 1)
	go func() {
		if n == nil {
			<-run.Done()
			left <- nil
			return
		}
		left <- n.Run(run)
	}()

	var faults []error
	select {
	case err := <-left:
		if err == nil && ctx.Err() == nil {
			err = errors.New("router: the node ended before it was told to")
		}
		if ctx.Err() == nil {
			return errors.Join(err, s.stop(c.Shutdown))
		}
		faults = append(faults, err)
		left <- nil
	case err := <-s.failed:
		faults = append(faults, err)
	case <-ctx.Done():
	}
	lingered := time.NewTimer(max(0, c.Linger))
	defer lingered.Stop()
	leave()
	faults = append(faults, <-left)
	<-lingered.C
	faults = append(faults, s.stop(c.Shutdown))
	return errors.Join(faults...)
}

func (c ServeConfig) valid(e []Endpoint) (ServeConfig, error) {
	var faults []error
	if c.Linger == 0 {
		c.Linger = 5 * time.Second
	}
	if c.Shutdown < 0 {
		faults = append(faults, fmt.Errorf("router: ServeConfig.Shutdown is %v: want a duration, or 0 for the default", c.Shutdown))
	} else if c.Shutdown == 0 {
		c.Shutdown = 10 * time.Second
	}
	for _, end := range e {
		if end.Server == nil {
			faults = append(faults, fmt.Errorf("router: endpoint on %q has no server", end.Addr))
		}
	}
	if len(e) == 0 {
		faults = append(faults, errors.New("router: Serve needs an endpoint; a node without servers needs only its Run"))
	}
	return c, errors.Join(faults...)
}

// listen listens on all of e, or on none.
func listen(ctx context.Context, e []Endpoint) ([]net.Listener, error) {
	var (
		all    []net.Listener
		config net.ListenConfig
	)
	for _, end := range e {
		l, err := end.Listener, error(nil)
		if l == nil {
			l, err = config.Listen(ctx, "tcp", end.Addr)
		}
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			return nil, fmt.Errorf("router: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// servers are running.
type servers struct {
	all     []Endpoint
	running sync.WaitGroup
	failed  chan error // of each that ended, with room for all; nil errors are not sent
	relayed upgrades
	reserve reserve

	mu       sync.Mutex // guards stopping
	stopping bool
}

func (s *servers) start(e Endpoint, l net.Listener) {
	s.all = append(s.all, e)
	if h, ok := e.Server.(*http.Server); ok {
		h.BaseContext = s.relayed.base(h.BaseContext)
		s.reserve.watch(h)
	}
	s.running.Go(func() {
		serve := e.Server.Serve
		if h, ok := e.Server.(*http.Server); ok && h.TLSConfig != nil {
			// Serve would speak plain HTTP without a word.
			serve = func(l net.Listener) error { return h.ServeTLS(l, "", "") }
		}
		err := serve(l)
		_ = l.Close() // a server that failed before it accepted may have left it open
		if err == nil || errors.Is(err, http.ErrServerClosed) {
			if s.told() {
				return
			}
			err = errors.New("it was shut down before Serve was told to end")
		}
		s.failed <- fmt.Errorf("router: server on %s: %w", e.Addr, err)
	})
}

func (s *servers) told() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// stop shuts all servers down, in at most bound, waits for them and returns what went wrong since the last
// look at failed.
func (s *servers) stop(bound time.Duration) error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	faults := make([]error, len(s.all))
	s.reserve.end()
	var shutting sync.WaitGroup
	for i, e := range s.all {
		shutting.Go(func() {
			err := e.Server.Shutdown(ctx)
			if err == nil {
				return
			}
			if c, ok := e.Server.(interface{ Close() error }); ok {
				_ = c.Close()
			}
			if ctx.Err() != nil {
				err = fmt.Errorf("requests were cut off after %v: %w", bound, err)
			}
			faults[i] = fmt.Errorf("router: shutdown of the server on %s: %w", e.Addr, err)
		})
	}
	shutting.Wait()
	s.relayed.end()
	s.running.Wait()
	close(s.failed)
	for err := range s.failed {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
