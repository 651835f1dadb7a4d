package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
)

// read sends one Range. The client repeats it where that is safe, within ctx.
func (s *Store) read(ctx context.Context, what string, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := s.open(ctx, what); err != nil {
		return nil, err
	}
	resp, err := s.reads.Range(clientv3.WithRequireLeader(ctx), req,
		grpc.WaitForReady(false), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		if status.Code(err) == codes.Unavailable && refusal(err) == nil {
			what += unreached
		}
		return nil, explain(ctx, what, err, cas.ErrUnavailable)
	}
	return resp, nil
}

// Get is cas.KV.
func (s *Store) Get(ctx context.Context, key string) (cas.Entry, error) {
	if key == "" {
		return cas.Entry{}, fmt.Errorf("etcdkv: get of an empty key: %w", cas.ErrInvalid)
	}
	resp, err := s.read(ctx, "get", &pb.RangeRequest{Key: []byte(key)})
	if err != nil {
		return cas.Entry{}, err
	}
	if len(resp.Kvs) == 0 {
		return cas.Entry{Key: key}, nil
	}
	return entry(resp.Kvs[0]), nil
}

const (
	page  = 1000 // keys in one answer of a list
	lists = 3    // tries of a list that compaction overtakes
)

// List is cas.KV. It reads page after page, all at the revision of the first. If that is
// compacted meanwhile it starts again, a few times.
func (s *Store) List(ctx context.Context, prefix string) (cas.Snapshot, error) {
	for try := 1; ; try++ {
		snap, err := s.list(ctx, prefix)
		if try < lists && errors.Is(err, cas.ErrCompacted) {
			continue
		}
		return snap, err
	}
}

func (s *Store) list(ctx context.Context, prefix string) (cas.Snapshot, error) {
	var snap cas.Snapshot
	start, end := under(prefix)
	for {
		resp, err := s.read(ctx, "list", &pb.RangeRequest{Key: start, RangeEnd: end, Revision: snap.Rev, Limit: page})
		if err != nil {
			return cas.Snapshot{}, err
		}
		if snap.Rev == 0 {
			snap.Rev = resp.Header.Revision
			snap.Cluster = resp.Header.ClusterId
			s.cluster.Store(snap.Cluster)
			snap.Entries = make([]cas.Entry, 0, resp.Count)
		}
		for _, kv := range resp.Kvs {
			snap.Entries = append(snap.Entries, entry(kv))
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return snap, nil
		}
		start = append(resp.Kvs[len(resp.Kvs)-1].Key, 0)
	}
}

// under returns the range of the keys that begin with prefix; all keys if it is empty.
func under(prefix string) (start, end []byte) {
	if prefix == "" {
		return []byte{0}, []byte{0}
	}
	return []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix))
}

// Digest is cas.KV. etcd walks the whole prefix to find the highest revision and sends one
// key: next to nothing for the network, but for the server a sixth of a List (measured with
// 65,536 claims), so ask seldom.
func (s *Store) Digest(ctx context.Context, prefix string, rev int64) (cas.Digest, error) {
	start, end := under(prefix)
	resp, err := s.read(ctx, "digest", &pb.RangeRequest{
		Key:        start,
		RangeEnd:   end,
		Revision:   rev,
		Limit:      1,
		SortTarget: pb.RangeRequest_MOD,
		SortOrder:  pb.RangeRequest_DESCEND,
		KeysOnly:   true,
	})
	if err != nil {
		return cas.Digest{}, err
	}
	d := cas.Digest{Rev: rev, Cluster: resp.Header.ClusterId, Count: resp.Count}
	if rev == 0 {
		d.Rev = resp.Header.Revision
	}
	if len(resp.Kvs) > 0 {
		d.Highest = resp.Kvs[0].ModRevision
	}
	return d, nil
}
