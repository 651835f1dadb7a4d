package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	pb "github.com/tenure-go/tenure/examples/accounts/accountspb"
	"github.com/tenure-go/tenure/router/grpcrouter"
)

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// HTTP and gRPC are two ways to one ledger.
func TestRPC_AnyNodeOnce(t *testing.T) {
	w, ctx := newTown(t, 3), bounded(t)
	ask(t, "POST", w.nodes[0].http+"/accounts/alice/deposits", orderBody("first", 100))
	for _, n := range w.nodes {
		in, err := n.calls.Deposit(ctx, &pb.DepositRequest{AccountId: "alice", OperationId: "second", Amount: 50})
		if err != nil || in.Balance != 150 {
			t.Errorf("deposit: got %v %v, want a balance of 150", in, err)
		}
		out, err := n.calls.Withdraw(ctx, &pb.WithdrawRequest{AccountId: "alice", OperationId: "third", Amount: 30})
		if err != nil || out.Balance != 120 {
			t.Errorf("withdraw: got %v %v, want a balance of 120", out, err)
		}
		now, err := n.calls.Balance(ctx, &pb.BalanceRequest{AccountId: "alice"})
		if err != nil || now.Balance != 120 {
			t.Errorf("balance: got %v %v, want 120", now, err)
		}
		if _, body := ask(t, "GET", n.http+"/accounts/alice", ""); body != `{"balance":120}` {
			t.Errorf("over HTTP: got %s, want a balance of 120", body)
		}
	}
}

func TestRPC_Refusals(t *testing.T) {
	w, ctx := newTown(t, 2), bounded(t)
	ask(t, "POST", w.nodes[0].http+"/accounts/alice/deposits", orderBody("first", 100))
	deposit := func(account, op string, amount int64) func(pb.AccountsClient) error {
		return func(c pb.AccountsClient) error {
			_, err := c.Deposit(ctx, &pb.DepositRequest{AccountId: account, OperationId: op, Amount: amount})
			return err
		}
	}
	for _, c := range []struct {
		name string
		call func(pb.AccountsClient) error
		want codes.Code
	}{
		{"no account", deposit("", "a", 5), codes.InvalidArgument},
		{"strange account", deposit("a/b", "a", 5), codes.InvalidArgument},
		{"no operation", deposit("alice", "", 5), codes.InvalidArgument},
		{"zero", deposit("alice", "a", 0), codes.InvalidArgument},
		{"too rich", deposit("alice", "a", most), codes.OutOfRange},
		{"operation for another amount", deposit("alice", "first", 5), codes.AlreadyExists},
		{"more than there is", func(c pb.AccountsClient) error {
			_, err := c.Withdraw(ctx, &pb.WithdrawRequest{AccountId: "alice", OperationId: "a", Amount: 101})
			return err
		}, codes.FailedPrecondition},
		{"no such account", func(c pb.AccountsClient) error {
			_, err := c.Balance(ctx, &pb.BalanceRequest{AccountId: "nobody"})
			return err
		}, codes.NotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range w.nodes {
				err := c.call(n.calls)
				if status.Code(err) != c.want || grpcrouter.Outcome(err) != cas.NotApplied {
					t.Errorf("got %v, outcome %v, want %v, not applied", err, grpcrouter.Outcome(err), c.want)
				}
			}
		})
	}
}

// A watch shows each balance that stays for a moment, and ends when the account moves; the next one goes on from there.
func TestRPC_Watch(t *testing.T) {
	w, ctx := newTown(t, 2), bounded(t)
	ask(t, "POST", w.nodes[0].http+"/accounts/alice/deposits", orderBody("first", 1))
	owner, other := w.ownerOf(t, "alice")
	watch, err := owner.calls.Watch(ctx, &pb.WatchRequest{AccountId: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	for want := int64(1); want < 5; want++ {
		got, err := watch.Recv()
		if err != nil || got.Balance != want {
			t.Fatalf("got %v %v, want %d", got, err, want)
		}
		ask(t, "POST", other.http+"/accounts/alice/deposits", orderBody(fmt.Sprintf("op-%d", want), 1))
	}
	began := time.Now()
	owner.leave()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the owner took %v to leave: the watch has held up the hand-off", took)
	}
	for err == nil {
		_, err = watch.Recv() // the last change
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want %v: call again", err, codes.Unavailable)
	}
	again, err := other.calls.Watch(ctx, &pb.WatchRequest{AccountId: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Recv(); err != nil || got.Balance != 5 {
		t.Errorf("again: got %v %v, want 5", got, err)
	}
}

// An import whose client rests does not hold up a hand-off either.
func TestRPC_RestingImportDoesNotHoldUpAHandOff(t *testing.T) {
	w, ctx := newTown(t, 2), bounded(t)
	owner, _ := w.ownerOf(t, "alice")
	s, err := owner.calls.Import(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pb.ImportRequest{AccountId: "alice", OperationId: "a", Amount: 1}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, body := ask(t, "GET", owner.http+"/accounts/alice", ""); body == `{"balance":1}` {
			break
		}
	}
	began := time.Now()
	owner.leave()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the owner took %v to leave: the import has held up the hand-off", took)
	}
	if _, err := s.CloseAndRecv(); status.Code(err) != codes.Unavailable || grpcrouter.Outcome(err) != cas.Uncertain {
		t.Errorf("got %v, outcome %v, want %v, and that a part may be applied", err, grpcrouter.Outcome(err), codes.Unavailable)
	}
}

// A watch that a node passes on from another does not hold up the node's end: its client is told to call again.
func TestRPC_RelayedWatchDoesNotHoldUpTheEnd(t *testing.T) {
	w, ctx := newTown(t, 2), bounded(t)
	ask(t, "POST", w.nodes[0].http+"/accounts/alice/deposits", orderBody("first", 1))
	_, relay := w.ownerOf(t, "alice")
	watch, err := relay.calls.Watch(ctx, &pb.WatchRequest{AccountId: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	relay.leave() // fails the test if streams have to be cut off
	for err == nil {
		_, err = watch.Recv() // more than one, if alice was on her way
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want %v: call again", err, codes.Unavailable)
	}
}

// An import applies each message once, and says how many it was.
func TestRPC_Import(t *testing.T) {
	w, ctx := newTown(t, 2), bounded(t)
	for round, want := range []int64{20, 0} {
		for i, n := range w.nodes[:1] {
			s, err := n.calls.Import(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for m := range 20 {
				r := &pb.ImportRequest{OperationId: fmt.Sprintf("op-%d", m), Amount: 2}
				if m == 0 {
					r.AccountId = "alice"
				}
				if err := s.Send(r); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := s.CloseAndRecv(); err != nil || got.Applied != want || got.Balance != 40 {
				t.Errorf("round %d via node %d: got %v %v, want %d applied and a balance of 40", round, i, got, err, want)
			}
		}
	}
}

// An import that breaks off says that a part of it was applied, and not that nothing was.
func TestRPC_ImportInPart(t *testing.T) {
	w, ctx := newTown(t, 2), bounded(t)
	for name, bad := range map[string]*pb.ImportRequest{
		"another account": {AccountId: "bob", OperationId: "b", Amount: 1},
		"no amount":       {OperationId: "b"},
	} {
		for i, n := range w.nodes {
			account := fmt.Sprintf("account-%d", i)
			s, err := n.calls.Import(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []*pb.ImportRequest{{AccountId: account, OperationId: "op-" + name[:2], Amount: 1}, bad} {
				if err := s.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			_, err = s.CloseAndRecv()
			if status.Code(err) != codes.InvalidArgument || grpcrouter.Outcome(err) != cas.Uncertain {
				t.Errorf("%s: got %v, outcome %v, want %v, uncertain", name, err, grpcrouter.Outcome(err), codes.InvalidArgument)
			}
		}
	}
}

func TestRPC_Health(t *testing.T) {
	n := newTown(t, 1).nodes[0]
	got, err := grpc_health_v1.NewHealthClient(n.conn).Check(bounded(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("got %v %v, want SERVING", got, err)
	}
}
