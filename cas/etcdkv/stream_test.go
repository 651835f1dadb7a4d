package etcdkv

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
)

// created takes the request for a watch, and confirms it.
func created(s pb.Watch_WatchServer) (*pb.WatchCreateRequest, error) {
	r, err := s.Recv()
	if err != nil {
		return nil, err
	}
	return r.GetCreateRequest(), s.Send(&pb.WatchResponse{Header: header(1), Created: true})
}

func response(rev int64, revs ...int64) *pb.WatchResponse {
	r := &pb.WatchResponse{Header: header(rev)}
	for i, rev := range revs {
		r.Events = append(r.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: fmt.Append(nil, i), ModRevision: rev, CreateRevision: 1}})
	}
	return r
}

// got collects the revisions of a watch and how many events each had, until it breaks.
func got(t *testing.T, changes <-chan cas.Change) (all [][2]int64, err error) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case c, ok := <-changes:
			if !ok {
				t.Fatal("closed without an error")
			}
			if c.Err != nil {
				return all, c.Err
			}
			all = append(all, [2]int64{c.Rev, int64(len(c.Events))})
		case <-deadline:
			t.Fatal("the watch hangs")
		}
	}
}

func TestWatchSplitsAResponseIntoRevisions(t *testing.T) {
	f := &fake{watch: func(_ int, s pb.Watch_WatchServer) error {
		r, err := created(s)
		if err != nil || r.StartRevision != 5 || r.Fragment || string(r.Key) != "p/" || string(r.RangeEnd) != "p0" {
			return status.Errorf(codes.InvalidArgument, "bad request: %v, %v", r, err)
		}
		for _, resp := range []*pb.WatchResponse{
			response(9, 5, 5, 6, 8, 8, 8), // 5 is what the watch has
			response(9),
			response(7), // a member that lags, or an old report
			response(12, 10),
			response(12, 9, 10, 11), // again
			response(12),
		} {
			if err := s.Send(resp); err != nil {
				return err
			}
		}
		return rpctypes.ErrGRPCNoLeader
	}}
	all, err := got(t, f.store(t).Watch(t.Context(), "p/", 5))
	want := [][2]int64{{6, 1}, {8, 3}, {9, 0}, {10, 1}, {11, 1}, {12, 0}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if !errors.Is(err, cas.ErrNoLeader) {
		t.Errorf("got error %v", err)
	}
}

func TestWatchGoesOnAfterALostConnection(t *testing.T) {
	var starts []int64
	f := &fake{watch: func(n int, s pb.Watch_WatchServer) error {
		r, err := created(s)
		if err != nil {
			return err
		}
		starts = append(starts, r.StartRevision)
		switch n {
		case 1:
			_ = s.Send(response(3, 3))
			return status.Error(codes.Unavailable, "going down")
		case 2:
			return status.Error(codes.Internal, "stream reset")
		case 3:
			_ = s.Send(response(8))
			return rpctypes.ErrGRPCLeaderChanged
		}
		_ = s.Send(response(9, 9))
		return status.Error(codes.Unknown, "enough")
	}}
	all, err := got(t, f.store(t).Watch(t.Context(), "", 0))
	if diff := cmp.Diff([][2]int64{{3, 1}, {8, 0}, {9, 1}}, all); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{1, 3, 3, 8}, starts); diff != "" {
		t.Errorf("revisions asked for (-want +got):\n%s", diff)
	}
	if !errors.Is(err, cas.ErrUnavailable) {
		t.Errorf("got error %v", err)
	}
}

// TestCase_etcd16028_WatchMeetsAnotherCluster: a watch that connects again to a store restored from a backup is told of revisions
// that don't follow on those it has seen.
func TestCase_etcd16028_WatchMeetsAnotherCluster(t *testing.T) {
	other := func(r *pb.WatchResponse) *pb.WatchResponse {
		r.Header.ClusterId++
		return r
	}
	t.Run("after a connection", func(t *testing.T) {
		f := &fake{watch: func(n int, s pb.Watch_WatchServer) error {
			if n == 1 {
				if _, err := created(s); err == nil {
					_ = s.Send(response(3, 3))
				}
				return rpctypes.ErrGRPCLeaderChanged
			}
			_, _ = s.Recv()
			_ = s.Send(other(response(8, 8)))
			<-s.Context().Done()
			return nil
		}}
		all, err := got(t, f.store(t).Watch(t.Context(), "", 0))
		if diff := cmp.Diff([][2]int64{{3, 1}}, all); diff != "" || !errors.Is(err, cas.ErrUnavailable) {
			t.Errorf("error %v, changes (-want +got):\n%s", err, diff)
		}
	})
	t.Run("after a list", func(t *testing.T) {
		f := &fake{
			ranges: func(int, *pb.RangeRequest) (*pb.RangeResponse, error) {
				return &pb.RangeResponse{Header: header(3)}, nil
			},
			watch: func(_ int, s pb.Watch_WatchServer) error {
				_, _ = s.Recv()
				_ = s.Send(other(response(8, 8)))
				<-s.Context().Done()
				return nil
			},
		}
		s := f.store(t)
		if _, err := s.List(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		all, err := got(t, s.Watch(t.Context(), "", 3))
		if len(all) != 0 || !errors.Is(err, cas.ErrUnavailable) {
			t.Errorf("got %v, %v", all, err)
		}
	})
}

func TestWatchBreaks(t *testing.T) {
	answer := func(r *pb.WatchResponse) func(int, pb.Watch_WatchServer) error {
		return func(_ int, s pb.Watch_WatchServer) error {
			_, _ = s.Recv()
			r.Header = header(9)
			_ = s.Send(r)
			<-s.Context().Done()
			return nil
		}
	}
	fail := func(err error) func(int, pb.Watch_WatchServer) error {
		return func(int, pb.Watch_WatchServer) error { return err }
	}
	for _, c := range []struct {
		name  string
		watch func(int, pb.Watch_WatchServer) error
		want  error
	}{
		{"compacted", answer(&pb.WatchResponse{Canceled: true, CompactRevision: 7}), cas.ErrCompacted},
		{"denied", answer(&pb.WatchResponse{Created: true, Canceled: true, WatchId: -1, CancelReason: rpctypes.ErrGRPCPermissionDenied.Error()}), cas.ErrDenied},
		{"no user", answer(&pb.WatchResponse{Created: true, Canceled: true, WatchId: -1, CancelReason: rpctypes.ErrGRPCUserEmpty.Error()}), cas.ErrDenied},
		{"cancelled", answer(&pb.WatchResponse{Canceled: true, CancelReason: "a whim"}), cas.ErrUnavailable},
		{"no leader", fail(rpctypes.ErrGRPCNoLeader), cas.ErrNoLeader},
		{"bad token", fail(rpctypes.ErrGRPCInvalidAuthToken), cas.ErrDenied},
		{"no such service", fail(status.Error(codes.Unimplemented, "?")), cas.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{watch: c.watch}
			_, err := got(t, f.store(t).Watch(t.Context(), "p", 3))
			if !errors.Is(err, c.want) || cas.OutcomeOf(err) != cas.NotApplied {
				t.Errorf("got error %v, want %v", err, c.want)
			}
			if n := f.called("watch"); n != 1 {
				t.Errorf("connected %d times", n)
			}
		})
	}
}

// etcd drops a request for progress while a watch catches up.
func TestProgressIsAskedForAgain(t *testing.T) {
	f := &fake{watch: func(_ int, s pb.Watch_WatchServer) error {
		if _, err := created(s); err != nil {
			return err
		}
		for range 3 {
			r, err := s.Recv()
			if err != nil || r.GetProgressRequest() == nil {
				return status.Errorf(codes.InvalidArgument, "got %v, %v", r, err)
			}
			_ = s.Send(response(3, 3)) // what the watch has: no answer
		}
		_ = s.Send(response(9))
		<-s.Context().Done()
		return nil
	}}
	s := f.store(t)
	changes := s.Watch(t.Context(), "p", 3)
	if err := s.Progress(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case c := <-changes:
		if c.Rev != 9 || c.Err != nil || c.Events != nil {
			t.Errorf("got %v", c)
		}
	case <-time.After(10 * time.Second):
		t.Error("no progress")
	}
}

func TestListStartsAgainAfterACompaction(t *testing.T) {
	f := &fake{ranges: func(n int, r *pb.RangeRequest) (*pb.RangeResponse, error) {
		kv := []*mvccpb.KeyValue{{Key: fmt.Append(nil, n), ModRevision: int64(n)}}
		switch n {
		case 1:
			return &pb.RangeResponse{Header: header(5), Kvs: kv, More: true, Count: 2}, nil
		case 2:
			return nil, rpctypes.ErrGRPCCompacted
		case 3:
			if r.Revision != 0 {
				return nil, status.Errorf(codes.InvalidArgument, "started again at %d", r.Revision)
			}
			return &pb.RangeResponse{Header: header(15), Kvs: kv, More: true, Count: 2}, nil
		}
		if r.Revision != 15 || string(r.Key) != "3\x00" {
			return nil, status.Errorf(codes.InvalidArgument, "next page from %q at %d", r.Key, r.Revision)
		}
		return &pb.RangeResponse{Header: header(17), Kvs: kv, Count: 2}, nil
	}}
	snap, err := f.store(t).List(within(t, 5*time.Second), "")
	if err != nil || snap.Rev != 15 || len(snap.Entries) != 2 || snap.Entries[0].Key != "3" || snap.Cluster != 9 {
		t.Errorf("got %+v, %v", snap, err)
	}

	f = &fake{ranges: func(int, *pb.RangeRequest) (*pb.RangeResponse, error) { return nil, rpctypes.ErrGRPCCompacted }}
	if _, err := f.store(t).List(within(t, 5*time.Second), ""); !errors.Is(err, cas.ErrCompacted) || f.called("range") != 3 {
		t.Errorf("got error %v after %d requests, want compacted after 3", err, f.called("range"))
	}
}

func TestFaultyVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"3.4.30": true, "3.5.0": true, "3.5.22": true, "3.5.23": false, "3.5.24": false, "3.5.23-rc.1": true,
		"3.6.0": true, "3.6.4": true, "3.6.5": false, "3.6.5-alpha.0": true, "3.7.0": false, "3.10.1": false,
		"4.0.0": false, "2.3.7": true, "": true, "nonsense": true, "3.5": true,
	} {
		if got := faulty(version); got != want {
			t.Errorf("%q: got %v, want %v", version, got, want)
		}
	}
}
