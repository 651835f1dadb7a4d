package etcdkv

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tenure-go/tenure/cas"
)

// Commit is cas.KV: one etcd transaction, whose else-branch reads each compared key, so that
// a conflict comes with what is there now.
func (s *Store) Commit(ctx context.Context, t cas.Txn) (int64, error) {
	if err := t.Validate(); err != nil {
		return 0, err
	}
	keys := distinct(t.If)
	req := &pb.TxnRequest{
		Compare: make([]*pb.Compare, 0, len(t.If)),
		Success: make([]*pb.RequestOp, 0, len(t.Then)),
		Failure: make([]*pb.RequestOp, 0, len(keys)),
	}
	for _, c := range t.If {
		req.Compare = append(req.Compare, compare(c))
	}
	r := request{what: "commit", read: len(t.Then) == 0}
	for _, o := range t.Then {
		r.size += len(o.Key) + len(o.Value)
		req.Success = append(req.Success, change(o))
	}
	for _, key := range keys {
		get := &pb.RangeRequest{Key: []byte(key)}
		req.Failure = append(req.Failure, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: get}})
	}
	resp, err := write(ctx, s, r, func(ctx context.Context, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
		return s.writes.Txn(clientv3.WithRequireLeader(ctx), req, opts...)
	})
	if err != nil {
		return 0, err
	}
	if resp.Succeeded {
		return resp.Header.Revision, nil
	}
	conflict := &cas.ConflictError{Rev: resp.Header.Revision, Current: make([]cas.Entry, 0, len(keys))}
	for i, key := range keys {
		e := cas.Entry{Key: key}
		if kvs := resp.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			e = entry(kvs[0])
		}
		conflict.Current = append(conflict.Current, e)
	}
	return 0, conflict
}

// distinct returns the keys of conds, each once, in their order.
func distinct(conds []cas.Cond) []string {
	keys := make([]string, 0, len(conds))
	seen := make(map[string]struct{}, len(conds))
	for _, c := range conds {
		if _, ok := seen[c.Key]; !ok {
			seen[c.Key] = struct{}{}
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// compare relies on etcd's reading of an absent key: every attribute is 0.
func compare(c cas.Cond) *pb.Compare {
	p := &pb.Compare{Key: []byte(c.Key), Result: pb.Compare_EQUAL}
	switch c.Attr {
	case cas.Rev:
		p.Target, p.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: c.Is}
	case cas.Created:
		p.Target, p.TargetUnion = pb.Compare_CREATE, &pb.Compare_CreateRevision{CreateRevision: c.Is}
	case cas.Leased:
		p.Target, p.TargetUnion = pb.Compare_LEASE, &pb.Compare_Lease{Lease: c.Is}
	}
	return p
}

func change(o cas.Op) *pb.RequestOp {
	if o.Delete {
		del := &pb.DeleteRangeRequest{Key: []byte(o.Key)}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: del}}
	}
	put := &pb.PutRequest{Key: []byte(o.Key), Value: o.Value, Lease: int64(o.Lease)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
}

func entry(kv *mvccpb.KeyValue) cas.Entry {
	return cas.Entry{
		Key:     string(kv.Key),
		Value:   kv.Value,
		Rev:     kv.ModRevision,
		Created: kv.CreateRevision,
		Lease:   cas.LeaseID(kv.Lease),
	}
}
