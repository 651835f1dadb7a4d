package grpcrouter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/tenure-go/tenure/shard"
)

// Config configures a Client. The zero value speaks plain text among peers that trust each other.
type Config struct {
	// Dial is for connections to nodes: credentials, a stats handler, keepalive, a window. Defaults to plain text,
	// keepalive, quick reconnection and no proxy; what stands here comes after those. An interceptor here must not send a
	// call again by itself. Retries by a service config are switched off, whatever stands here: they send again what may
	// have been applied.
	Dial []grpc.DialOption

	// Target is a member's host:port for gRPC. Defaults to Member.Address. Of a member that the table
	// does not show yet, only ID and Address may be known.
	Target func(shard.Member) string

	// Peer is for Options, which forward through this Client: it reports whether the sender of an incoming call is
	// a node or a Client; check its certificate, say. Defaults to believing who says so. Set it where others reach
	// nodes directly. A client that passes for a node is refused where others are forwarded, and by naming an
	// epoch to come it can have each of its calls wait for WaitTimeout in one of the shard's MaxWaiting places.
	// Who says that it is a node, and is not believed, is served what is owned here, and refused the rest.
	Peer func(ctx context.Context) bool

	// Tries is how often a call is sent, the first time included; again only after a definite refusal, or if
	// there was no connection. Defaults to 4.
	Tries int

	// Replay is up to how many bytes of messages a stream sends before it is admitted. They are held in memory for the next
	// try; then SendMsg waits for the owner to admit the stream. Defaults to 64 KiB.
	Replay int

	// Logger hears of calls that could not be brought to their owner, and of errors of handlers whose text clients don't
	// get to see. Defaults to silence.
	Logger *slog.Logger
}

const (
	// ownerWait is how long a call waits for an owner to be known: a node's default WaitTimeout.
	ownerWait = 5 * time.Second

	// idleAfter is how long a connection that nothing uses is kept, and how long one to a dead node is dialed again.
	idleAfter = time.Minute
)

// valid returns c with defaults in, or all its faults.
func (c Config) valid() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("grpcrouter: Config."+format, args...))
	}
	if c.Tries < 0 {
		fault("Tries is %d: want 1 or more, or 0 for the default", c.Tries)
	} else if c.Tries == 0 {
		c.Tries = 4
	}
	if c.Replay < 0 {
		fault("Replay is %d: want a number of bytes, or 0 for the default", c.Replay)
	} else if c.Replay == 0 {
		c.Replay = 64 << 10
	}
	if c.Target == nil {
		c.Target = func(m shard.Member) string { return m.Address }
	}
	if c.Peer == nil {
		c.Peer = func(context.Context) bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Dial = dialOptions(c.Dial)
	// It connects to nobody yet: this only asks whether the options go together.
	probe, err := grpc.NewClient("passthrough:///probe", c.Dial...)
	if err != nil {
		fault("Dial: %w", err)
	} else {
		_ = probe.Close()
	}
	return c, errors.Join(faults...)
}

// dialOptions puts user between defaults and what must be so.
func dialOptions(user []grpc.DialOption) []grpc.DialOption {
	all := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(idleAfter),
		// Options lets clients ping this often.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second}),
		// Between two attempts of one call lies less than gRPC's first back-off, a second.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 25 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
	}
	all = append(all, user...)
	return append(all, grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
}
