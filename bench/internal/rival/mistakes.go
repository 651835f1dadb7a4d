package rival

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tenure-go/tenure/bench/internal/measure"
)

// ReadThenWrite are programs that read a balance and write the next one: with nothing to order them, with locks used as they
// should not be, and with locks used as they should.
func ReadThenWrite(p *Places, w Work) (mistakes, proper []measure.Contender) {
	e := newEffect(liteReadThenSet)
	if p.Postgres != nil {
		e = pgReadThenSet
	}
	wrong := func(name, note string, open func(context.Context) (locker, func(), error)) {
		mistakes = append(mistakes, measure.Contender{Name: name, Note: note, Open: func(ctx context.Context) (*measure.Instance, error) {
			return locked(ctx, p, w, e, open)
		}})
	}
	wrong("nothing", "no lock, no condition", func(context.Context) (locker, func(), error) {
		return func(context.Context, int, int) (func(context.Context) error, error) {
			return func(context.Context) error { return nil }, nil
		}, func() {}, nil
	})
	if p.Etcd != nil {
		wrong("etcd Mutex, one session for all", "one lease, one key: all goroutines of the session hold it at once", func(context.Context) (locker, func(), error) {
			return etcdSharedSession(p)
		})
	}
	if len(p.Redis) > 0 {
		wrong("Redis lock, TTL 5 ms, not renewed", "a TTL that the work outlasts now and then", func(context.Context) (locker, func(), error) {
			return hastyRedisLock(p)
		})
	}
	return mistakes, lockContenders(p, w, e)
}

func pgReadThenSet(ctx context.Context, p *Places, w Work) (effect, error) {
	t, err := newPgTable(ctx, p, w.Accounts)
	if err != nil {
		return effect{}, err
	}
	return effect{t.readThenSet, t.sum, t.drop}, nil
}

func liteReadThenSet(ctx context.Context, p *Places, w Work) (effect, error) {
	t, err := newLiteTable(ctx, p, w.Accounts)
	if err != nil {
		return effect{}, err
	}
	return effect{func(ctx context.Context, account int) error {
		var balance int64
		if err := t.db.QueryRowContext(ctx, "SELECT balance FROM "+t.name+" WHERE id = ?", account).Scan(&balance); err != nil {
			return err
		}
		_, err := t.db.ExecContext(ctx, "UPDATE "+t.name+" SET balance = ? WHERE id = ?", balance+1, account)
		return err
	}, t.sum, t.drop}, nil
}

func etcdSharedSession(p *Places) (locker, func(), error) {
	session, err := concurrency.NewSession(p.Etcd, concurrency.WithTTL(10))
	if err != nil {
		return nil, nil, err
	}
	prefix := "/" + p.name("mutex") + "/account"
	return func(ctx context.Context, _, _ int) (func(context.Context) error, error) {
		m := concurrency.NewMutex(session, prefix)
		return m.Unlock, m.Lock(ctx)
	}, func() { _ = session.Close() }, nil
}

func hastyRedisLock(p *Places) (locker, func(), error) {
	client, key := redislock.New(p.Redis[0]), p.name("lock")
	return func(ctx context.Context, _, _ int) (func(context.Context) error, error) {
		lock, err := client.Obtain(ctx, key, 5*time.Millisecond, &redislock.Options{
			RetryStrategy: redislock.ExponentialBackoff(time.Millisecond, 32*time.Millisecond),
		})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			if err := lock.Release(ctx); !errors.Is(err, redislock.ErrLockNotHeld) {
				return err
			}
			return nil // expired already: most programs shrug
		}, nil
	}, func() {}, nil
}
