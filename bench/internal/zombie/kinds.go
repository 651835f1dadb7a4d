package zombie

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/bench/internal/servers"
)

// Kind is a contender.
type Kind struct {
	Name   string
	Ours   bool
	Misuse bool
	Note   string
	TTL    time.Duration // of the lease or session
	onEtcd bool          // the balance is a key of etcd
	topic  bool          // it holds a partition of a topic, and what it writes comes of a record
	needs  func(servers.Addresses) bool
	lock   func(*locked, spec) error // one of a lock and a database
	open   func(context.Context, *database, spec) (holder, error)
}

func hasRedis(n int) func(servers.Addresses) bool {
	return func(a servers.Addresses) bool { return len(a.Redis) >= n }
}

func hasPostgres(a servers.Addresses) bool { return a.Postgres != "" }

// Kinds are the contenders that a's servers suffice for.
func Kinds(a servers.Addresses) []Kind {
	all := []Kind{
		{Name: "etcd Mutex", Note: "the session was alive when last looked at", lock: etcdMutex},
		{Name: "etcd Election", Note: "likewise", lock: etcdElection},
		{Name: "Redis SET NX + Lua", Note: "renewed each third of its TTL, and its TTL looked at", needs: hasRedis(1), lock: redisLock},
		{Name: "redsync, 1 node", Note: "extended likewise, and Until looked at", needs: hasRedis(1), lock: redsyncLock(1)},
		{Name: "redsync, 5 nodes", Note: "likewise", needs: hasRedis(5), lock: redsyncLock(5)},
		{Name: "ZooKeeper lock", Note: "its session was there when last looked at", needs: func(a servers.Addresses) bool { return len(a.ZooKeeper) > 0 }, lock: zooKeeper},
		{Name: "advisory lock", Note: "a session's lock on one connection, the write on another", needs: hasPostgres, lock: advisory(false)},
		{Name: "advisory lock, with a timeout", Note: "idle_session_timeout, so that a holder that hangs does not hang all", needs: hasPostgres, lock: advisory(true)},
		{
			Name: "SELECT FOR UPDATE", Note: "with idle_in_transaction_session_timeout: the write goes with the lock", needs: hasPostgres,
			open: func(_ context.Context, d *database, s spec) (holder, error) {
				return &rowLock{database: d, id: s.Name}, nil
			},
		},
		{
			Name: "CAS by version", Note: "holds nothing",
			open: func(_ context.Context, d *database, s spec) (holder, error) {
				return &byVersion{database: d, id: s.Name}, nil
			},
		},
		{
			Name: "Tenure, fenced SQL", Ours: true, Note: "written on purpose under a context that the loss does not end",
			open: fenced,
		},
		{
			Name: "Tenure, etcd put with Guard", Ours: true, onEtcd: true,
			open: func(_ context.Context, _ *database, s spec) (holder, error) { return onEtcd(s) },
		},
		{
			Name: "Tenure, cas", Ours: true, onEtcd: true, Note: "holds nothing",
			open: func(_ context.Context, _ *database, s spec) (holder, error) { return newSwap(s) },
		},
		{
			Name: "Tenure without its fence", Misuse: true, Note: "how not to use it: the token stays at home",
			open: func(_ context.Context, d *database, s spec) (holder, error) { return unfenced(d, s) },
		},
	}
	if a.Kafka != nil { // rivals before Tenure
		all = slices.Insert(all, slices.IndexFunc(all, func(k Kind) bool { return k.Ours }), consumers(a.Kafka)...)
	}
	var kinds []Kind
	for _, k := range all {
		if k.TTL == 0 {
			k.TTL = TTL
		}
		if k.needs == nil || k.needs(a) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Tolerable is the longest TTL that is waited for in a run that is not to take long. Kafka's default of 45 s is not.
const Tolerable = 10 * time.Second

// open makes the holder that s names.
func open(ctx context.Context, s spec) (holder, error) {
	d, err := openDatabase(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, k := range Kinds(s.Addresses) {
		if k.Name != s.Kind {
			continue
		}
		if k.open != nil {
			return k.open(ctx, d, s)
		}
		l := &locked{database: d, id: s.Name}
		return l, k.lock(l, s)
	}
	return nil, fmt.Errorf("zombie: unknown kind %q", s.Kind)
}
