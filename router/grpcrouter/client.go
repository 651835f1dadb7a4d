package grpcrouter

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/internal/trip"
)

// Client is a grpc.ClientConnInterface: give it to a generated NewXClient. Each call goes to the owner of its key; see the
// package's documentation for what is tried again and what is not. Errors are *CallError.
//
// Unary calls and streams take the usual call options; WaitForReady is without effect, as a Client waits for an owner by
// itself, and OnFinish runs once for each try. A stream whose key is in its first message begins with that: until
// then, Header and RecvMsg wait.
//
// Safe for concurrent use. The zero value is invalid; see NewClient.
type Client struct {
	key   KeyFunc
	conf  Config
	table *router.Table
	pool  *pool
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// NewClient returns a Client that finds owners in t. It connects to nobody yet. All faults of c are reported together. Close it
// after the servers that forward through it, and before t.
func NewClient(t *router.Table, key KeyFunc, c Config) (*Client, error) {
	var faults []error
	if t == nil {
		faults = append(faults, errors.New("grpcrouter: NewClient needs a table: see router.Open"))
	}
	if key == nil {
		faults = append(faults, errors.New("grpcrouter: NewClient needs a KeyFunc, such as Field"))
	}
	c, err := c.valid()
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, &setupError{err}
	}
	return &Client{key: key, conf: c, table: t, pool: newPool(c.Dial)}, nil
}

// Close closes the connections. Calls under way end as Canceled, those that were sent with an uncertain outcome. Idempotent;
// the error is always nil.
func (c *Client) Close() error {
	c.pool.close()
	return nil
}

// Invoke makes a unary call; for generated code.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	key, err := c.key.find(ctx, method, args)
	if err != nil {
		return keyless(method, err)
	}
	return c.route(method, key, outgoing(ctx)).invoke(ctx, args, reply, opts)
}

// NewStream opens a stream; for generated code.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s := newStream(ctx, c, desc, method, opts)
	key, err := c.key.find(ctx, method, nil)
	if errors.Is(err, ErrUnrouted) {
		return nil, keyless(method, err)
	}
	if err != nil {
		return s, nil // the first message may have it
	}
	s.route = c.route(method, key, outgoing(ctx))
	if err := s.begin(); err != nil {
		return nil, err
	}
	return s, nil
}

// route is one call on its way to its owner.
type route struct {
	c      *Client
	method string
	md     metadata.MD
	trip   *trip.Trip
}

func (c *Client) route(method, key string, md metadata.MD) *route {
	return &route{c: c, method: method, md: md, trip: trip.New(trip.Config{
		Table:  c.table,
		Target: c.conf.Target,
		Tries:  c.conf.Tries,
		Wait:   ownerWait,
	}, key)}
}

// outgoing is what the caller sends along. Names of this library are not for callers to set.
func outgoing(ctx context.Context) metadata.MD {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	return withoutOwn(md)
}
