package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
)

const (
	reconnectFirst = 10 * time.Millisecond // doubled with each failure
	reconnectMost  = time.Second
	askAgain       = 100 * time.Millisecond // etcd drops a request for progress while the watch catches up
)

// run connects, and connects again, until the watch breaks.
func (w *watch) run(ctx context.Context) error {
	inner, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	stop := context.AfterFunc(w.store.life, cancel)
	defer stop()

	wait := reconnectFirst
	for {
		began := time.Now()
		err := w.follow(ctx, inner)
		if ended := w.ended(ctx); ended != nil {
			return ended
		}
		if !errors.Is(err, errLost) {
			return err
		}
		if time.Since(began) > reconnectMost {
			wait = reconnectFirst
		}
		t := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-t.C:
		case <-inner.Done():
			t.Stop()
			return w.ended(ctx)
		}
		wait = min(2*wait, reconnectMost)
	}
}

// follow opens one stream and delivers what comes, until it breaks. inner ends with the
// watch, ctx only with the caller.
func (w *watch) follow(ctx, inner context.Context) error {
	inner, cancel := context.WithCancel(inner)
	var asker sync.WaitGroup
	defer asker.Wait()
	defer cancel()

	stream, err := pb.NewWatchClient(w.store.client.ActiveConnection()).Watch(inner,
		grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return broken(err)
	}
	start, end := under(w.prefix)
	// Fragments stay off: with them one revision could come in pieces.
	_ = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: start, RangeEnd: end, StartRevision: max(w.rev, 1), ProgressNotify: true,
	}}}) // Recv tells why it failed

	answered := make(chan struct{}, 1)
	asker.Go(func() { w.ask(inner, stream, answered) })
	for {
		resp, err := stream.Recv()
		if err != nil {
			return broken(err)
		}
		if err := w.known(resp.Header.GetClusterId()); err != nil {
			return err
		}
		before := w.changes
		if err := w.receive(ctx, resp); err != nil {
			return err
		}
		// Events that are skipped answer nothing: etcd sends them while it still drops
		// requests for progress.
		if w.changes != before {
			select {
			case answered <- struct{}{}:
			default:
			}
		}
	}
}

// ask passes requests for progress on to the server, again until a change was delivered.
func (w *watch) ask(ctx context.Context, stream pb.Watch_WatchClient, answered <-chan struct{}) {
	request := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
	for {
		select {
		case <-w.asked:
		case <-ctx.Done():
			return
		}
		select {
		case <-answered: // an earlier request
		default:
		}
		for again := askAgain; ; again = min(2*again, 10*askAgain) {
			if stream.Send(request) != nil {
				w.remember() // Recv tells why; the next stream asks
				return
			}
			t := time.NewTimer(again)
			select {
			case <-t.C:
				continue
			case <-answered:
				t.Stop()
			case <-ctx.Done():
				t.Stop()
				w.remember()
				return
			}
			break
		}
	}
}

// known refuses answers of another cluster.
func (w *watch) known(cluster uint64) error {
	switch {
	case w.cluster == 0:
		w.cluster = cluster
	case cluster != 0 && cluster != w.cluster:
		return fmt.Errorf("%w: cluster %x answers and not %x: restored from a backup, or other endpoints", cas.ErrUnavailable, cluster, w.cluster)
	}
	return nil
}

// receive delivers one response: a report of progress, or events of one revision or several.
func (w *watch) receive(ctx context.Context, resp *pb.WatchResponse) error {
	switch {
	case resp.CompactRevision != 0:
		return fmt.Errorf("%w: the oldest revision kept is %d", cas.ErrCompacted, resp.CompactRevision)
	case resp.Canceled:
		return cancelled(resp.CancelReason)
	case resp.Created:
		return nil
	case len(resp.Events) == 0:
		// After a reconnection to a member that lags, or after a restore, the revision may be
		// lower than what this watch has reached.
		if rev := resp.Header.GetRevision(); rev >= w.rev {
			return w.send(ctx, cas.Change{Rev: rev})
		}
		return nil
	}
	for events := resp.Events; len(events) > 0; {
		rev := events[0].Kv.ModRevision
		n := 1
		for n < len(events) && events[n].Kv.ModRevision == rev {
			n++
		}
		if rev > w.rev {
			c := cas.Change{Rev: rev, Events: make([]cas.Event, 0, n)}
			for _, e := range events[:n] {
				c.Events = append(c.Events, event(e))
			}
			if err := w.send(ctx, c); err != nil {
				return err
			}
		}
		events = events[n:]
	}
	return nil
}

func event(e *mvccpb.Event) cas.Event {
	if e.Type == mvccpb.Event_DELETE {
		return cas.Event{Entry: cas.Entry{Key: string(e.Kv.Key), Rev: e.Kv.ModRevision}, Deleted: true}
	}
	return cas.Event{Entry: entry(e.Kv)}
}

// cancelled is the error of a watch that the server ended. It says why by a text, and not by
// a status as with all other requests.
func cancelled(reason string) error {
	for _, denied := range []error{
		rpctypes.ErrGRPCPermissionDenied,
		rpctypes.ErrGRPCUserEmpty,
		rpctypes.ErrGRPCInvalidAuthToken,
		rpctypes.ErrGRPCAuthOldRevision,
	} {
		if reason == denied.Error() || reason == rpctypes.ErrorDesc(denied) {
			return fmt.Errorf("%w: %s", cas.ErrDenied, reason)
		}
	}
	return fmt.Errorf("%w: cancelled by the server: %s", cas.ErrUnavailable, reason)
}

// errLost marks what broke a stream and passes: a lost connection, a server that restarts.
var errLost = errors.New("connection lost")

// broken is the error of a watch whose stream broke.
func broken(err error) error {
	if is := refusal(err); is != nil {
		return fmt.Errorf("%w: %w", is, err)
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal:
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return fmt.Errorf("%w: %w", cas.ErrUnavailable, err)
}
