package zombie

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tenure-go/tenure/bench/internal/servers"
)

// locked is a lock outside of the database, and the write that it is to guard.
type locked struct {
	*database
	id     string
	lock   func(context.Context) error
	held   func(context.Context) error // as its documentation says to check
	unlock func(context.Context) error
}

func (l *locked) acquire(ctx context.Context) (int64, error) {
	if err := l.lock(ctx); err != nil {
		return 0, err
	}
	balance, _, err := l.read(ctx, l.id)
	if err == nil && l.held != nil {
		err = l.held(ctx)
	}
	return balance, err
}

func (l *locked) write(ctx context.Context, balance int64) error { return l.set(ctx, l.id, balance) }

func (l *locked) release(ctx context.Context) error { return l.unlock(ctx) }

var errNotHeld = errors.New("zombie: the lock was lost before the write")

func etcdMutex(l *locked, s spec) error {
	session, err := etcdSession(s)
	if err != nil {
		return err
	}
	m := concurrency.NewMutex(session, "/bench/zombie/"+s.Name)
	l.lock, l.unlock = m.Lock, m.Unlock
	l.held = func(context.Context) error { return alive(session) }
	return nil
}

func etcdElection(l *locked, s spec) error {
	session, err := etcdSession(s)
	if err != nil {
		return err
	}
	e := concurrency.NewElection(session, "/bench/zombie/"+s.Name)
	l.lock = func(ctx context.Context) error { return e.Campaign(ctx, "me") }
	l.unlock = e.Resign
	l.held = func(context.Context) error { return alive(session) }
	return nil
}

func etcdSession(s spec) (*concurrency.Session, error) {
	client, err := servers.OpenEtcd(s.Addresses.Etcd)
	if err != nil {
		return nil, err
	}
	return concurrency.NewSession(client, concurrency.WithTTL(int(TTL.Seconds())))
}

func alive(s *concurrency.Session) error {
	select {
	case <-s.Done():
		return errNotHeld
	default:
		return nil
	}
}

func redisLock(l *locked, s spec) error {
	client := redislock.New(redis.NewClient(&redis.Options{Addr: s.Addresses.Redis[0]}))
	var lock *redislock.Lock
	l.lock = func(ctx context.Context) (err error) {
		// Without a deadline of its own it would give up after one TTL.
		obtaining, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		lock, err = client.Obtain(obtaining, "bench:zombie:"+s.Name, TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)})
		if err == nil {
			go every(TTL/3, func() error { return lock.Refresh(ctx, TTL, nil) })
		}
		return err
	}
	l.held = func(ctx context.Context) error {
		if left, err := lock.TTL(ctx); err != nil || left <= 0 {
			return errors.Join(errNotHeld, err)
		}
		return nil
	}
	l.unlock = func(ctx context.Context) error { return lock.Release(ctx) }
	return nil
}

// every renews until that fails. It lives as long as the child.
func every(d time.Duration, renew func() error) {
	for range time.Tick(d) {
		if renew() != nil {
			return
		}
	}
}

func redsyncLock(nodes int) func(*locked, spec) error {
	return func(l *locked, s spec) error {
		var pools []redsyncredis.Pool
		for _, addr := range s.Addresses.Redis[:nodes] {
			pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: addr})))
		}
		m := redsync.New(pools...).NewMutex("bench:zombie:"+s.Name, redsync.WithExpiry(TTL), redsync.WithTries(1_000_000),
			redsync.WithRetryDelayFunc(func(int) time.Duration { return 5*time.Millisecond + rand.N(10*time.Millisecond) }))
		l.lock = func(ctx context.Context) error {
			err := m.LockContext(ctx)
			if err == nil {
				go every(TTL/3, func() error {
					_, err := m.ExtendContext(ctx)
					return err
				})
			}
			return err
		}
		l.held = func(context.Context) error {
			if time.Now().After(m.Until()) {
				return errNotHeld
			}
			return nil
		}
		l.unlock = func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}
		return nil
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func zooKeeper(l *locked, s spec) error {
	conn, _, err := zk.Connect(s.Addresses.ZooKeeper, TTL, zk.WithLogger(quiet{}))
	if err != nil {
		return fmt.Errorf("zombie: zookeeper: %w", err)
	}
	m := zk.NewLock(conn, "/bench-zombie/"+s.Name, zk.WorldACL(zk.PermAll))
	l.lock = func(context.Context) error { return m.Lock() }
	l.unlock = func(context.Context) error { return m.Unlock() }
	l.held = func(context.Context) error {
		if conn.State() != zk.StateHasSession {
			return errNotHeld
		}
		return nil
	}
	return nil
}

// advisory is a session's lock on a connection of its own. With a timeout the server ends that session once it has been
// silent for a TTL; without one the lock lasts as long as the connection, however still its process stands.
func advisory(timeout bool) func(*locked, spec) error {
	return func(l *locked, s spec) error {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, s.Addresses.Postgres)
		if err != nil {
			return fmt.Errorf("zombie: postgres: %w", err)
		}
		ask := func(query string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := conn.Exec(ctx, query, s.Name)
				return err
			}
		}
		l.lock, l.unlock = ask("SELECT pg_advisory_lock(hashtext($1))"), ask("SELECT pg_advisory_unlock(hashtext($1))")
		l.held = conn.Ping
		if timeout {
			_, err = conn.Exec(ctx, fmt.Sprintf("SET idle_session_timeout = %d", TTL.Milliseconds()))
		}
		return err
	}
}
