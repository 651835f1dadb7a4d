package main

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	pb "github.com/tenure-go/tenure/examples/accounts/accountspb"
	"github.com/tenure-go/tenure/owner"
)

// rpc is the service over gRPC. Each method runs only at the account's owner, inside its tenure. Errors go out as
// they are: a refusal has a status of its own, and of the library's errors grpcrouter makes one.
type rpc struct {
	pb.UnimplementedAccountsServer
	ledger *ledger
}

// keyField is the field that every request has the account in.
const keyField = "account_id"

// Deposit is the service's.
func (s *rpc) Deposit(ctx context.Context, r *pb.DepositRequest) (*pb.DepositReply, error) {
	c, err := deposit(r.GetAccountId(), r.GetOperationId(), r.GetAmount())
	if err != nil {
		return nil, err
	}
	receipt, err := s.apply(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.DepositReply{Balance: receipt.balance}, nil
}

// Withdraw is the service's.
func (s *rpc) Withdraw(ctx context.Context, r *pb.WithdrawRequest) (*pb.WithdrawReply, error) {
	c, err := withdrawal(r.GetAccountId(), r.GetOperationId(), r.GetAmount())
	if err != nil {
		return nil, err
	}
	receipt, err := s.apply(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.WithdrawReply{Balance: receipt.balance}, nil
}

func (s *rpc) apply(ctx context.Context, c change) (receipt, error) {
	t, err := owner.From(ctx)
	if err != nil {
		return receipt{}, err
	}
	return s.ledger.writer.Do(ctx, t, c)
}

// Balance is the service's.
func (s *rpc) Balance(ctx context.Context, r *pb.BalanceRequest) (*pb.BalanceReply, error) {
	t, err := owner.From(ctx)
	if err != nil {
		return nil, err
	}
	balance, err := s.ledger.balance(ctx, t, r.GetAccountId())
	if err != nil {
		return nil, err
	}
	return &pb.BalanceReply{Balance: balance}, nil
}

// errMoving ends streams, so that they don't hold up a hand-off.
var errMoving = &refusal{text: "the account moves to another node: call again", code: codes.Unavailable}

// Watch is the service's.
func (s *rpc) Watch(r *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchReply]) error {
	ctx, account := stream.Context(), r.GetAccountId()
	t, err := owner.From(ctx)
	if err != nil {
		return err
	}
	b, err := s.ledger.book(t)
	if err != nil {
		return err
	}
	for last := int64(-1); ; {
		changed := b.next(account) // before the look: a change in between is not missed
		balance, err := s.ledger.balance(ctx, t, account)
		if err != nil {
			return err
		}
		if balance != last {
			if err := stream.Send(&pb.WatchReply{Balance: balance}); err != nil {
				return err
			}
			last = balance
		}
		select {
		case <-changed:
		case <-t.Draining():
			return errMoving
		case <-ctx.Done(): // the client has gone, or the tenure is lost
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// Import is the service's. It waits for each message to be applied before it takes the next one, which keeps their
// order and, by gRPC's flow control, holds back a client that sends faster.
func (s *rpc) Import(stream grpc.ClientStreamingServer[pb.ImportRequest, pb.ImportReply]) error {
	ctx := stream.Context()
	t, err := owner.From(ctx)
	if err != nil {
		return err
	}
	in, account, reply := receive(stream), "", new(pb.ImportReply)
	for {
		var m message
		select {
		case m = <-in:
		case <-t.Draining(): // a client that rests holds up nobody
			return partly(reply, errMoving)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		if errors.Is(m.err, io.EOF) {
			return stream.SendAndClose(reply)
		}
		if m.err != nil {
			return m.err
		}
		if account == "" {
			account = m.GetAccountId()
		}
		if id := m.GetAccountId(); id != "" && id != account {
			return partly(reply, invalid("account_id is %q, and was %q in the first message: one stream is for one account", id, account))
		}
		if err := s.importOne(ctx, t, account, m.ImportRequest, reply); err != nil {
			return partly(reply, err)
		}
	}
}

func (s *rpc) importOne(ctx context.Context, t *owner.Tenure, account string, m *pb.ImportRequest, reply *pb.ImportReply) error {
	c, err := deposit(account, m.GetOperationId(), m.GetAmount())
	if err != nil {
		return err
	}
	receipt, err := s.ledger.writer.Do(ctx, t, c)
	if err != nil {
		return err
	}
	reply.Balance = receipt.balance
	if !receipt.repeated {
		reply.Applied++
	}
	return nil
}

// message is what a stream has received.
type message struct {
	*pb.ImportRequest
	err error
}

// receive reads in the background, since a Recv can't be left. Its goroutine ends with the stream, soon after the
// method has returned.
func receive(stream grpc.ClientStreamingServer[pb.ImportRequest, pb.ImportReply]) <-chan message {
	in, ctx := make(chan message), stream.Context()
	go func() {
		for {
			m, err := stream.Recv()
			select {
			case in <- message{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return in
}

// partly is err for a stream of which a part may be applied: it does not say any more that nothing was.
func partly(done *pb.ImportReply, err error) error {
	if done.Applied == 0 {
		return err
	}
	code, text := codes.Unknown, "outcome uncertain"
	if no, ok := errors.AsType[*refusal](err); ok {
		code, text = no.code, no.text
	} else if cas.OutcomeOf(err) == cas.NotApplied {
		code, text = codes.Unavailable, "try again"
	}
	return status.Errorf(code, "after %d deposits that were applied: %s", done.Applied, text)
}
