package grpcrouter_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
	"github.com/tenure-go/tenure/shard"
)

// greeter is a service whose method runs at the owner of its request's key.
type greeter struct{ echopb.UnimplementedEchoServer }

func (greeter) Unary(ctx context.Context, r *echopb.Request) (*echopb.Reply, error) {
	t, err := owner.From(ctx)
	if err != nil {
		return nil, err
	}
	return &echopb.Reply{Node: fmt.Sprintf("%s is owned here: %v", r.Key, t.Owns(r.Key))}, nil
}

func Example() {
	group := shard.Group{Name: "greetings", Shards: 4}
	store := memkv.NewServer(memkv.Config{}).Client() // etcdkv.New(client) in earnest
	defer store.Close()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err := owner.New(store, group, func(ctx context.Context, t *owner.Tenure) error {
		t.Ready()
		<-ctx.Done()
		return nil
	}, owner.Config{Address: l.Addr().String()})
	if err != nil {
		fmt.Println(err)
		return
	}
	table, err := router.Open(context.Background(), store, group, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer table.Close()
	key := grpcrouter.Field("key")
	peers, err := grpcrouter.NewClient(table, key, grpcrouter.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer peers.Close()

	srv := grpc.NewServer(grpcrouter.Options(node, key, peers)...)
	echopb.RegisterEchoServer(srv, greeter{})
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- router.Serve(ctx, node, router.ServeConfig{Linger: -1},
			router.Endpoint{Server: grpcrouter.Wrap(srv), Listener: l}) // router.On(":9090", …) in earnest
	}()

	// Who has a table calls the owner; the first call waits until there is one.
	r, err := echopb.NewEchoClient(peers).Unary(context.Background(), &echopb.Request{Key: "alice"})
	fmt.Println(r.GetNode(), err)

	// Others dial any node. Their errors say whether the call was applied, too.
	_, err = echopb.NewEchoClient(conn).Unary(context.Background(), &echopb.Request{})
	fmt.Println(grpcrouter.Outcome(err) == cas.NotApplied, err)

	stop()
	fmt.Println(<-done)
	// Output:
	// alice is owned here: true <nil>
	// true rpc error: code = InvalidArgument desc = router: no key: field "key" of tenure.echo.Request is empty
	// <nil>
}
