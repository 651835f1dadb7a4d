package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
)

var anyTxn = cas.Txn{Then: []cas.Op{cas.Put("k", []byte("v"))}}

// The client repeats a write whose answer is Canceled or DeadlineExceeded; a store must not.
// Each answer here stands for one that came after the write was applied.
func TestCase_etcd14890_WriteIsSentOnce(t *testing.T) {
	answers := []error{
		status.Error(codes.Canceled, "the server shuts down"),
		status.Error(codes.DeadlineExceeded, "a proxy gave up"),
		status.Error(codes.Unavailable, "connection lost"),
		status.Error(codes.Unavailable, "there is no address available"),
		status.Error(codes.Internal, "internal"),
		status.Error(codes.Unknown, "unknown"),
		status.Error(codes.Aborted, "aborted"),
		status.Error(codes.DataLoss, "data loss"),
		status.Error(codes.ResourceExhausted, "message larger than max"),
		rpctypes.ErrGRPCTimeout,
		rpctypes.ErrGRPCTimeoutDueToLeaderFail,
		rpctypes.ErrGRPCTimeoutDueToConnectionLost,
		rpctypes.ErrGRPCTimeoutWaitAppliedIndex,
		rpctypes.ErrGRPCLeaderChanged,
		rpctypes.ErrGRPCStopped,
		rpctypes.ErrGRPCCanceled,
		rpctypes.ErrGRPCDeadlineExceeded,
		rpctypes.ErrGRPCCorrupt,
	}
	for _, answer := range answers {
		t.Run(answer.Error(), func(t *testing.T) {
			f := &fake{
				txn:   func(int, *pb.TxnRequest) (*pb.TxnResponse, error) { return nil, answer },
				grant: func(int) (*pb.LeaseGrantResponse, error) { return nil, answer },
			}
			s := f.store(t)
			_, commit := s.Commit(within(t, 5*time.Second), anyTxn)
			_, grant := s.Grant(within(t, 5*time.Second), time.Second)
			for what, err := range map[string]error{"txn": commit, "grant": grant} {
				if n := f.called(what); n != 1 {
					t.Errorf("%s was sent %d times", what, n)
				}
				if !errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain {
					t.Errorf("%s: got error %v, outcome %q", what, err, cas.OutcomeOf(err))
				}
				if !strings.Contains(err.Error(), status.Convert(answer).Message()) {
					t.Errorf("%s: the cause is not in %v", what, err)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for answer, want := range map[error]error{
		rpctypes.ErrGRPCTooManyOps:                          cas.ErrInvalid,
		rpctypes.ErrGRPCDuplicateKey:                        cas.ErrInvalid,
		rpctypes.ErrGRPCRequestTooLarge:                     cas.ErrInvalid,
		rpctypes.ErrGRPCEmptyKey:                            cas.ErrInvalid,
		rpctypes.ErrGRPCLeaseTTLTooLarge:                    cas.ErrInvalid,
		rpctypes.ErrGRPCLeaseNotFound:                       cas.ErrLeaseNotFound,
		rpctypes.ErrGRPCNoSpace:                             cas.ErrNoSpace,
		rpctypes.ErrGRPCNoLeader:                            cas.ErrNoLeader,
		rpctypes.ErrGRPCRequestTooManyRequests:              cas.ErrUnavailable,
		rpctypes.ErrGRPCNotSupportedForLearner:              cas.ErrUnavailable,
		rpctypes.ErrGRPCPermissionDenied:                    cas.ErrDenied,
		rpctypes.ErrGRPCUserEmpty:                           cas.ErrDenied,
		rpctypes.ErrGRPCAuthFailed:                          cas.ErrDenied,
		status.Error(codes.Unauthenticated, "who are you"):  cas.ErrDenied,
		status.Error(codes.PermissionDenied, "a proxy"):     cas.ErrDenied,
		status.Error(codes.Unimplemented, "no such method"): cas.ErrUnavailable,
	} {
		t.Run(answer.Error(), func(t *testing.T) {
			f := &fake{
				txn:    func(int, *pb.TxnRequest) (*pb.TxnResponse, error) { return nil, answer },
				ranges: func(int, *pb.RangeRequest) (*pb.RangeResponse, error) { return nil, answer },
			}
			s := f.store(t)
			_, commit := s.Commit(within(t, 5*time.Second), anyTxn)
			_, get := s.Get(within(t, 5*time.Second), "k")
			for what, err := range map[string]error{"commit": commit, "get": get} {
				if !errors.Is(err, want) || cas.OutcomeOf(err) != cas.NotApplied {
					t.Errorf("%s: got error %v, outcome %q, want %v", what, err, cas.OutcomeOf(err), want)
				}
			}
		})
	}
}

// A transaction without changes is a read, whatever becomes of it.
func TestReadIsNeverUncertain(t *testing.T) {
	f := &fake{
		txn:    func(int, *pb.TxnRequest) (*pb.TxnResponse, error) { return nil, rpctypes.ErrGRPCTimeout },
		ranges: func(int, *pb.RangeRequest) (*pb.RangeResponse, error) { return nil, rpctypes.ErrGRPCTimeout },
	}
	s := f.store(t)
	_, commit := s.Commit(within(t, 5*time.Second), cas.Txn{If: []cas.Cond{cas.Absent("k")}})
	_, list := s.List(within(t, 50*time.Millisecond), "k")
	for _, err := range []error{commit, list} {
		if !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got error %v, outcome %q", err, cas.OutcomeOf(err))
		}
	}
}

// A token that has expired is a refusal, and the client's repetition with a fresh one is
// wanted.
func TestWriteIsRepeatedWithAFreshToken(t *testing.T) {
	f := &fake{txn: func(n int, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
		if n == 1 {
			return nil, rpctypes.ErrGRPCInvalidAuthToken
		}
		return &pb.TxnResponse{Header: header(7), Succeeded: true}, nil
	}}
	s := dial(t, clientv3.Config{Endpoints: []string{f.serve(t)}, Username: "u", Password: "p"})
	rev, err := s.Commit(within(t, 5*time.Second), anyTxn)
	if err != nil || rev != 7 || f.called("txn") != 2 {
		t.Errorf("got revision %d, error %v, after %d requests", rev, err, f.called("txn"))
	}
}

// A refusal says nothing about the repetition that follows it.
func TestLostReplyAfterAFreshToken(t *testing.T) {
	f := &fake{txn: func(n int, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
		if n == 1 {
			return nil, rpctypes.ErrGRPCInvalidAuthToken
		}
		return nil, status.Error(codes.Canceled, "applied, and then")
	}}
	s := dial(t, clientv3.Config{Endpoints: []string{f.serve(t)}, Username: "u", Password: "p"})
	_, err := s.Commit(within(t, 5*time.Second), anyTxn)
	if !errors.Is(err, cas.ErrUncertain) || f.called("txn") != 2 {
		t.Errorf("got error %v after %d requests, want uncertain after 2", err, f.called("txn"))
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := l.Addr().String()
	_ = l.Close()
	s := dial(t, clientv3.Config{Endpoints: []string{endpoint}})
	ctx := within(t, 10*time.Second)
	_, commit := s.Commit(ctx, anyTxn)
	_, renew := s.Renew(ctx, 1)
	_, get := s.Get(ctx, "k")
	for what, err := range map[string]error{"commit": commit, "renew": renew, "get": get} {
		if !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: got error %v, outcome %q", what, err, cas.OutcomeOf(err))
		}
	}
	if ctx.Err() != nil {
		t.Error("it took until the context ended")
	}
}

func TestContextEndsARequest(t *testing.T) {
	hang := make(chan struct{})
	arrived := make(chan struct{}, 1)
	f := &fake{
		txn: func(int, *pb.TxnRequest) (*pb.TxnResponse, error) {
			arrived <- struct{}{}
			<-hang
			return nil, context.Canceled
		},
		renew: func(_ int, s pb.Lease_LeaseKeepAliveServer) error {
			arrived <- struct{}{}
			<-s.Context().Done()
			return nil
		},
	}
	s := f.store(t)
	t.Cleanup(func() { close(hang) }) // before the server is stopped
	because := errors.New("because")
	for what, request := range map[string]func(context.Context) error{
		"commit": func(ctx context.Context) error { _, err := s.Commit(ctx, anyTxn); return err },
		"renew":  func(ctx context.Context) error { _, err := s.Renew(ctx, 1); return err },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- request(ctx) }()
		<-arrived
		cancel(because)
		if err := <-ended; !errors.Is(err, cas.ErrUncertain) || !errors.Is(err, because) {
			t.Errorf("%s: got error %v, want uncertain and the context's cause", what, err)
		}
	}
}

// The cause that a context was ended with may be the error of another request. It says nothing
// of this one, which may have been applied.
func TestCauseIsNotTheOutcome(t *testing.T) {
	key := "acct"
	for what, cause := range map[string]error{
		"conflict":    fmt.Errorf("elsewhere: %w", &cas.ConflictError{Current: []cas.Entry{{Key: key}, {Key: cas.ReceiptKey(key, "op")}}}),
		"unavailable": fmt.Errorf("elsewhere: %w", cas.ErrUnavailable),
	} {
		for _, receipt := range []string{"", "op"} {
			hang := make(chan struct{})
			ctx, cancel := context.WithCancelCause(t.Context())
			f := &fake{
				ranges: func(int, *pb.RangeRequest) (*pb.RangeResponse, error) {
					return &pb.RangeResponse{Header: header(3)}, nil
				},
				txn: func(_ int, r *pb.TxnRequest) (*pb.TxnResponse, error) {
					if len(r.Success) == 0 { // the first read, with a receipt
						none := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}}
						return &pb.TxnResponse{Header: header(3), Responses: []*pb.ResponseOp{none, none}}, nil
					}
					cancel(cause)
					<-hang
					return nil, context.Canceled
				},
			}
			s := f.store(t)
			t.Cleanup(func() { close(hang) }) // before the server is stopped
			_, err := cas.Update(ctx, s, key, func(n *int) error { *n++; return nil }, cas.UpdateConfig{Receipt: receipt})
			if !errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain || !errors.Is(err, cause) {
				t.Errorf("%s, receipt %q: got error %v, outcome %q, want uncertain with the cause", what, receipt, err, cas.OutcomeOf(err))
			}
			// The zero outcome is that of whoever says nothing, so see the other one as well.
			if _, err := s.Commit(ctx, anyTxn); !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("%s: not sent: got error %v, outcome %q", what, err, cas.OutcomeOf(err))
			}
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cas.ErrUncertain)
	if _, err := (&fake{}).store(t).Commit(ctx, anyTxn); cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("not sent because of an uncertain outcome elsewhere: got error %v, outcome %q", err, cas.OutcomeOf(err))
	}
}

func TestRenewIsOneRequest(t *testing.T) {
	for _, c := range []struct {
		name  string
		renew func(int, pb.Lease_LeaseKeepAliveServer) error
		want  error
	}{
		{"gone", func(_ int, s pb.Lease_LeaseKeepAliveServer) error {
			return s.Send(&pb.LeaseKeepAliveResponse{Header: header(3)})
		}, cas.ErrLeaseNotFound},
		{"no leader", func(int, pb.Lease_LeaseKeepAliveServer) error { return rpctypes.ErrGRPCNoLeader }, cas.ErrNoLeader},
		{"unavailable", func(int, pb.Lease_LeaseKeepAliveServer) error { return rpctypes.ErrGRPCLeaderChanged }, cas.ErrUncertain},
		{"no answer", func(int, pb.Lease_LeaseKeepAliveServer) error { return nil }, cas.ErrUncertain},
		{"denied", func(int, pb.Lease_LeaseKeepAliveServer) error { return rpctypes.ErrGRPCPermissionDenied }, cas.ErrDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{renew: c.renew}
			_, err := f.store(t).Renew(within(t, 5*time.Second), 1)
			if !errors.Is(err, c.want) || f.called("renew") != 1 {
				t.Errorf("got error %v after %d requests, want %v after 1", err, f.called("renew"), c.want)
			}
		})
	}
}
