package cas

import (
	"context"
	"time"
)

// Store is the seam between Tenure and a store with revisions and leases: etcd
// (package etcdkv) or memory (package memkv). Programs make one and pass it on;
// they seldom call it. Implementations are safe for concurrent use.
//
// It carries the lease clock, so that a test with virtual time needs no hook.
type Store interface {
	KV
	Watcher
	Leaser
	Clock

	// Close ends the store's own background work and its watches. It does not close
	// a client that the caller made. Idempotent.
	Close() error
}

// KV reads and commits. Every read is linearizable: it shows all that was committed
// before it began.
type KV interface {
	// Get reads one key. An absent key is no error: its Entry has Rev 0.
	Get(ctx context.Context, key string) (Entry, error)

	// List reads every key under prefix, all as of one revision, in the order of keys.
	List(ctx context.Context, prefix string) (Snapshot, error)

	// Digest sums up what List would return at revision rev (0: now), at much less
	// cost. A view that has the same digest at the same revision has missed nothing
	// that matters. A revision that is compacted is ErrCompacted; one that the store has not
	// reached yet is ErrFutureRev.
	Digest(ctx context.Context, prefix string, rev int64) (Digest, error)

	// Commit applies t.Then if every condition in t.If holds, all or nothing, and
	// returns the one revision that all its changes carry. If a condition fails the
	// error is a *ConflictError; if the reply was lost it wraps ErrUncertain. Commit
	// never sends a transaction twice. One without changes is a read, and its outcome is
	// never uncertain. An error that wraps the cause of ctx's end has an Outcome of its own,
	// because that cause may be an error of another commit.
	Commit(ctx context.Context, t Txn) (rev int64, err error)
}

// Watcher follows changes.
type Watcher interface {
	// Watch delivers, in order, every change under prefix with a revision above after,
	// one whole revision at a time, until ctx ends or the watch breaks. Then it sends
	// one Change with Err set and closes the channel. The receiver must drain the channel.
	// One long-lived watch is cheap; one for each hand-over is not.
	Watch(ctx context.Context, prefix string, after int64) <-chan Change

	// Progress asks each of this store's watches to report, as a Change without events, the
	// revision it has reached. It is a request, not a promise: a watch that lags stays silent.
	Progress(ctx context.Context) error
}

// Leaser grants and renews leases. Keys put under a lease vanish with it, in one revision.
type Leaser interface {
	// Grant returns a new lease. The store may grant a longer TTL than was asked for.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)

	// Renew gives the lease its full TTL again, once. A lease that is gone is ErrLeaseNotFound.
	Renew(ctx context.Context, id LeaseID) (Lease, error)

	// Revoke ends the lease now and deletes its keys. A lease that is gone is ErrLeaseNotFound.
	Revoke(ctx context.Context, id LeaseID) error
}

// Clock is the clock that leases are measured against.
type Clock interface {
	// Now is the time since some fixed instant. It never runs backwards and goes on
	// while the machine is suspended, as a server's clock does. Cheap enough to
	// call for every request; allocates nothing.
	Now() time.Duration
}

// Adviser is what a store may offer besides: warnings about its servers that an operator should
// read, such as versions with known faults. What could not be found out is the error.
type Adviser interface {
	Advice(ctx context.Context) (warnings []string, err error)
}

// LeaseID names a lease. 0 is no lease.
type LeaseID int64

// Lease is what Grant and Renew return.
type Lease struct {
	ID  LeaseID
	TTL time.Duration // as granted by the store, from the request's arrival there
	Rev int64         // the store's revision when it answered, as far as that server knew: it may lag behind others
}

// Entry is a key's state. Rev 0 means absent. Value must not be modified: several readers
// may share it.
type Entry struct {
	Key     string
	Value   []byte
	Rev     int64   // revision of the last change
	Created int64   // revision of the put that created it
	Lease   LeaseID // 0: none
}

// Snapshot is a prefix as of one revision.
type Snapshot struct {
	Rev     int64
	Cluster uint64 // identity of the store; a change of it means another cluster
	Entries []Entry
}

// Digest sums up a prefix as of Rev.
type Digest struct {
	Rev     int64
	Cluster uint64
	Count   int64 // keys
	Highest int64 // highest Entry.Rev among them, 0 if there are none
}

// Change is what happened under a watched prefix in one revision. One without
// events reports progress: nothing more happened up to Rev.
type Change struct {
	Rev    int64
	Events []Event
	Err    error // the last one: ErrCompacted, ErrNoLeader, or the context's error, wrapped
}

// Event is one key's change. A deletion has Deleted set and only Key and Rev in Entry.
type Event struct {
	Entry
	Deleted bool
}
