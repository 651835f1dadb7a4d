package etcdkv

import (
	"context"
	"fmt"
	"math"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tenure-go/tenure/cas"
)

// Grant is cas.Leaser. etcd counts whole seconds, so ttl is rounded up; the server raises it
// to 1.5 election timeouts. A grant whose answer is lost is cas.ErrUncertain: the lease that
// may be there has no keys and expires.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (cas.Lease, error) {
	if ttl <= 0 {
		return cas.Lease{}, fmt.Errorf("etcdkv: grant of a lease with TTL %v, must be above 0: %w", ttl, cas.ErrInvalid)
	}
	req := &pb.LeaseGrantRequest{TTL: int64(math.Ceil(ttl.Seconds()))}
	resp, err := write(ctx, s, request{what: "grant of a lease"}, func(ctx context.Context, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
		return s.leases.LeaseGrant(clientv3.WithRequireLeader(ctx), req, opts...)
	})
	if err != nil {
		return cas.Lease{}, err
	}
	return cas.Lease{
		ID:  cas.LeaseID(resp.ID),
		TTL: time.Duration(resp.TTL) * time.Second,
		Rev: resp.Header.Revision,
	}, nil
}

// Renew is cas.Leaser: one request on a stream of its own, one answer. The client's
// KeepAliveOnce is not used: while etcd can't be reached it tries again without a pause until
// the context ends. On a cluster with users and passwords every renewal authenticates anew,
// as KeepAliveOnce does; certificates spare that.
func (s *Store) Renew(ctx context.Context, id cas.LeaseID) (cas.Lease, error) {
	what := fmt.Sprintf("renewal of lease %x", id)
	if err := s.open(ctx, what); err != nil {
		return cas.Lease{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.leases.LeaseKeepAlive(clientv3.WithRequireLeader(ctx), grpc.WaitForReady(false))
	if err != nil {
		return cas.Lease{}, explain(ctx, what, err, cas.ErrUnavailable)
	}
	// An error of Send says only that the stream has broken; Recv tells why.
	_ = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
	resp, err := stream.Recv()
	if err != nil {
		return cas.Lease{}, explain(ctx, what, err, cas.ErrUncertain)
	}
	if resp.TTL <= 0 {
		return cas.Lease{}, fmt.Errorf("etcdkv: %s: %w", what, cas.ErrLeaseNotFound)
	}
	return cas.Lease{ID: id, TTL: time.Duration(resp.TTL) * time.Second, Rev: resp.Header.Revision}, nil
}

// Revoke is cas.Leaser.
func (s *Store) Revoke(ctx context.Context, id cas.LeaseID) error {
	req := &pb.LeaseRevokeRequest{ID: int64(id)}
	_, err := write(ctx, s, request{what: fmt.Sprintf("revocation of lease %x", id)}, func(ctx context.Context, opts ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
		return s.leases.LeaseRevoke(clientv3.WithRequireLeader(ctx), req, opts...)
	})
	return err
}
