package rival

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tenure-go/tenure/bench/internal/measure"
)

// effect is what a lock guards.
type effect struct {
	run  func(ctx context.Context, account int) error
	sum  func(context.Context) (int64, error)
	drop func()
}

type newEffect func(ctx context.Context, p *Places, w Work) (effect, error)

func pgEffect(ctx context.Context, p *Places, w Work) (effect, error) {
	t, err := newPgTable(ctx, p, w.Accounts)
	if err != nil {
		return effect{}, err
	}
	return effect{t.addOne, t.sum, t.drop}, nil
}

// locker locks an account for a client, and returns how to unlock it.
type locker func(ctx context.Context, client, account int) (unlock func(context.Context) error, err error)

// lockContenders are the locks that live outside of the resource, around one effect.
func lockContenders(p *Places, w Work, e newEffect) []measure.Contender {
	var cs []measure.Contender
	add := func(name, note string, open func(context.Context) (locker, func(), error)) {
		cs = append(cs, measure.Contender{Name: name, Note: note, Open: func(ctx context.Context) (*measure.Instance, error) {
			return locked(ctx, p, w, e, open)
		}})
	}
	if p.Etcd != nil {
		add("etcd Mutex, one session", "and a sync.Mutex for each account, since one session's mutexes do not exclude each other", func(context.Context) (locker, func(), error) { return etcdOneSession(p, w) })
		add("etcd Mutex, a session each", "a lease for each client, as so many processes would have", func(context.Context) (locker, func(), error) { return etcdSessions(p, w) })
	}
	if len(p.Redis) > 0 {
		add("Redis SET NX + Lua", "bsm/redislock, TTL 10 s, retried after 1 to 32 ms, doubling", func(context.Context) (locker, func(), error) { return redisLock(p, w) })
		add("redsync, 1 node", "retried after 1 to 16 ms at random", func(context.Context) (locker, func(), error) { return redsyncLock(p, w, 1) })
	}
	if len(p.Redis) >= 5 {
		add("redsync, 5 nodes", "retried after 1 to 16 ms at random", func(context.Context) (locker, func(), error) { return redsyncLock(p, w, 5) })
	}
	if len(p.ZooKeeper) > 0 {
		add("ZooKeeper lock, a session each", "go-zookeeper/zk's Lock", func(context.Context) (locker, func(), error) { return zkLock(p, w) })
	}
	return cs
}

func locked(ctx context.Context, p *Places, w Work, e newEffect, open func(context.Context) (locker, func(), error)) (*measure.Instance, error) {
	guarded, err := e(ctx, p, w)
	if err != nil {
		return nil, err
	}
	lock, hangUp, err := open(ctx)
	if err != nil {
		guarded.drop()
		return nil, err
	}
	return &measure.Instance{
		Do: func(ctx context.Context, client, account int) error {
			unlock, err := lock(ctx, client, account)
			if err != nil {
				return err
			}
			err = guarded.run(ctx, account)
			if failed := unlock(ctx); err == nil {
				err = failed
			}
			return err
		},
		Sum:   guarded.sum,
		Close: func() { hangUp(); guarded.drop() },
	}, nil
}

func etcdOneSession(p *Places, w Work) (locker, func(), error) {
	session, err := concurrency.NewSession(p.Etcd, concurrency.WithTTL(10))
	if err != nil {
		return nil, nil, fmt.Errorf("rival: etcd session: %w", err)
	}
	prefix, local := "/"+p.name("mutex")+"/", make([]sync.Mutex, w.Accounts)
	names := keys(w.Accounts)
	return func(ctx context.Context, _, account int) (func(context.Context) error, error) {
		local[account].Lock()
		m := concurrency.NewMutex(session, prefix+names[account])
		if err := m.Lock(ctx); err != nil {
			local[account].Unlock()
			return nil, err
		}
		return func(ctx context.Context) error {
			defer local[account].Unlock()
			return m.Unlock(ctx)
		}, nil
	}, func() { _ = session.Close() }, nil
}

func etcdSessions(p *Places, w Work) (locker, func(), error) {
	sessions := make([]*concurrency.Session, 0, w.Clients)
	hangUp := func() {
		for _, s := range sessions {
			_ = s.Close()
		}
	}
	for range w.Clients {
		s, err := concurrency.NewSession(p.Etcd, concurrency.WithTTL(10))
		if err != nil {
			hangUp()
			return nil, nil, fmt.Errorf("rival: etcd session: %w", err)
		}
		sessions = append(sessions, s)
	}
	prefix, names := "/"+p.name("mutex")+"/", keys(w.Accounts)
	return func(ctx context.Context, client, account int) (func(context.Context) error, error) {
		m := concurrency.NewMutex(sessions[client], prefix+names[account])
		return m.Unlock, m.Lock(ctx)
	}, hangUp, nil
}

func redisLock(p *Places, w Work) (locker, func(), error) {
	client, prefix, names := redislock.New(p.Redis[0]), p.name("lock")+":", keys(w.Accounts)
	return func(ctx context.Context, _, account int) (func(context.Context) error, error) {
		lock, err := client.Obtain(ctx, prefix+names[account], 10*time.Second, &redislock.Options{
			RetryStrategy: redislock.ExponentialBackoff(time.Millisecond, 32*time.Millisecond),
		})
		if err != nil {
			return nil, err
		}
		return lock.Release, nil
	}, func() {}, nil
}

func redsyncLock(p *Places, w Work, nodes int) (locker, func(), error) {
	var pools []redsyncredis.Pool
	for _, c := range p.Redis[:nodes] {
		pools = append(pools, goredis.NewPool(c))
	}
	rs, prefix, names := redsync.New(pools...), p.name("redsync")+":", keys(w.Accounts)
	return func(ctx context.Context, _, account int) (func(context.Context) error, error) {
		m := rs.NewMutex(prefix+names[account], redsync.WithTries(1_000_000), redsync.WithRetryDelayFunc(func(int) time.Duration {
			return time.Millisecond + rand.N(15*time.Millisecond)
		}))
		unlock := func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}
		return unlock, m.LockContext(ctx)
	}, func() {}, nil
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func zkLock(p *Places, w Work) (locker, func(), error) {
	conns := make([]*zk.Conn, 0, w.Clients)
	hangUp := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range w.Clients {
		c, _, err := zk.Connect(p.ZooKeeper, 10*time.Second, zk.WithLogger(quiet{}))
		if err != nil {
			hangUp()
			return nil, nil, fmt.Errorf("rival: zookeeper: %w", err)
		}
		conns = append(conns, c)
	}
	prefix, names := "/"+p.name("lock")+"/", keys(w.Accounts)
	return func(_ context.Context, client, account int) (func(context.Context) error, error) {
		m := zk.NewLock(conns[client], prefix+names[account], zk.WorldACL(zk.PermAll))
		return func(context.Context) error { return m.Unlock() }, m.Lock()
	}, hangUp, nil
}
