package grpcrouter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// Options are for grpc.NewServer, before options of your own: interceptors that enter the tenure of each call's key, so that
// owner.From has it in the handler, and keepalive that goes with that of Client.
//
// A call for a key that is not owned here goes on through via, once; what via has as Config.Target, Peer and Logger holds for
// that too. With via nil it is refused as Unavailable with the owner's name in the status, which a Client follows
// (calls of a Client are never forwarded). Calls for which key returns ErrUnrouted run here. n is nil in a gateway, which
// owns nothing: it needs no handlers, only the services' names, so register the generated UnimplementedXServer.
//
// Interceptors that are given to the server before these run around them, on both hops of a forwarded call, and see the
// metadata as it came; those after run inside the tenure, only at the owner.
//
// What can't work (no key, a node of another group than via's table, or without an address for peers) is the answer to every
// call, with an outcome that is cas.NotApplied.
func Options(n *owner.Node, key KeyFunc, via *Client) []grpc.ServerOption {
	g := &gate{key: key, via: via, wait: ownerWait, peer: func(context.Context) bool { return true }, log: slog.New(slog.DiscardHandler)}
	if n != nil {
		g.node, g.wait = n, n.WaitTimeout()
	}
	if via != nil {
		g.peer, g.log = via.conf.Peer, via.conf.Logger.With("group", via.table.Group().Name)
	}
	g.fault = g.check()
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(g.unary),
		grpc.ChainStreamInterceptor(g.stream),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
}

// gate is what stands before the handlers of a server. Safe for concurrent use.
type gate struct {
	node  node // nil in a gateway
	key   KeyFunc
	via   *Client // nil: refuse
	wait  time.Duration
	peer  func(context.Context) bool
	log   *slog.Logger
	fault error
}

// node is what Options needs of an *owner.Node.
type node interface {
	Do(ctx context.Context, key string, fn func(context.Context, *owner.Tenure) error) error
	Group() shard.Group
	Status() owner.Status
}

func (g *gate) check() error {
	if g.key == nil {
		return errors.New("Options needs a KeyFunc, such as Field")
	}
	if g.node == nil || g.via == nil {
		return nil
	}
	if got, want := g.node.Group().WithDefaults(), g.via.table.Group(); got != want {
		return fmt.Errorf("the node is of group %v and the table of %v: give both the same declaration", got, want)
	}
	if self := g.node.Status().Self; g.via.conf.Target(self) == "" {
		return errors.New("the node has no address, so peers could forward nothing to it: set owner.Config.Address, or Config.Target to what stands for it")
	}
	return nil
}

// find is the key of a call, or ErrUnrouted. Another error is the answer.
func (g *gate) find(ctx context.Context, method string, req any) (string, error) {
	if g.fault != nil {
		return "", say(status.New(codes.FailedPrecondition, "grpcrouter: "+g.fault.Error()), cas.NotApplied, nil).Err()
	}
	return g.key.find(ctx, method, req)
}
