package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/tenure-go/tenure/bench/internal/rival"
)

// Open connects to what a names, and opens a SQLite database under dir. Each server must answer within a few seconds: later, one
// that does not would be a row without requests. Errors begin with the flag that names the server. The caller calls hangUp, also after an error.
func Open(ctx context.Context, dir string, a Addresses) (*rival.Places, func(), error) {
	p := &rival.Places{ZooKeeper: a.ZooKeeper, Kafka: a.Kafka, Run: strconv.FormatInt(time.Now().UnixMilli(), 36)}
	var closers []func()
	hangUp := func() {
		for _, f := range closers {
			f()
		}
	}
	var err error
	if p.SQLite, err = OpenSQLite(filepath.Join(dir, "bench.db")); err != nil {
		return nil, hangUp, err
	}
	closers = append(closers, func() { _ = p.SQLite.Close() })
	if p.Etcd, err = OpenEtcd(a.Etcd); err != nil {
		return nil, hangUp, err
	}
	closers = append(closers, func() { _ = p.Etcd.Close() })
	if err := askEtcd(ctx, p.Etcd); err != nil {
		return nil, hangUp, err
	}
	if a.Postgres != "" {
		pool, err := dialPostgres(ctx, a.Postgres)
		if err != nil {
			return nil, hangUp, err
		}
		p.Postgres = pool
		closers = append(closers, pool.Close)
	}
	redis.SetLogger(silent{}) // what it would log comes as an error, too
	for _, addr := range a.Redis {
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, MaxRetries: -1})
		closers = append(closers, func() { _ = c.Close() })
		if err := askRedis(ctx, c, addr); err != nil {
			return nil, hangUp, err
		}
		p.Redis = append(p.Redis, c)
	}
	if len(a.ZooKeeper) > 0 {
		if err := askZooKeeper(ctx, a.ZooKeeper); err != nil {
			return nil, hangUp, err
		}
	}
	return p, hangUp, nil
}

// OpenSQLite opens a database as several processes may share it.
func OpenSQLite(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("servers: sqlite: %w", err)
	}
	// One connection, so that clients queue in this process: SQLite's own waiters sleep and try again, which starves some of them.
	db.SetMaxOpenConns(1)
	return db, nil
}

// OpenEtcd makes a client as the README says to.
func OpenEtcd(endpoints []string) (*clientv3.Client, error) {
	if len(endpoints) == 0 {
		return nil, errors.New("servers: no etcd endpoint")
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("servers: etcd: %w", err)
	}
	return c, nil
}

// OpenPostgres opens a pool of at most conns connections.
func OpenPostgres(ctx context.Context, url string, conns int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("servers: postgres: %w", err)
	}
	c.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("servers: postgres: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("servers: postgres: %w", err)
	}
	return pool, nil
}
