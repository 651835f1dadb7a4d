package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// patience is how long a server may take to answer at all.
const patience = 5 * time.Second

// unanswered is the error of a server that the flag names: who refused to be connected to, or that nobody answered in time; else err as it is.
func unanswered(ctx context.Context, flag, at string, err error) error {
	var dial *net.OpError
	switch {
	case ctx.Err() != nil: // the caller's, who does not want to know any more
		return fmt.Errorf("%s: %w", flag, ctx.Err())
	case errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout():
		cause := dial.Err
		var call *os.SyscallError
		if errors.As(cause, &call) {
			cause = call.Err
		}
		if dial.Addr != nil {
			at = dial.Addr.String()
		}
		return fmt.Errorf("%s: connect: %s: %w", flag, at, cause)
	case errors.As(err, &dial) && dial.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer from %s within %s", flag, at, patience)
	default:
		return fmt.Errorf("%s: %s: %w", flag, at, err)
	}
}

// askEtcd reads a key, which takes a leader.
func askEtcd(ctx context.Context, c *clientv3.Client) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.Get(limited, "/bench")
	if err == nil {
		return nil
	}
	if limited.Err() != nil { // gRPC tells the last try's error, or the deadline, as it happens
		err = context.DeadlineExceeded
	}
	return unanswered(ctx, "-etcd", strings.Join(c.Endpoints(), ","), err)
}

func askRedis(ctx context.Context, c *redis.Client, addr string) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.Ping(limited).Err(); err != nil {
		return unanswered(ctx, "-redis", addr, err)
	}
	return nil
}

func dialPostgres(ctx context.Context, address string) (*pgxpool.Pool, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pool, err := OpenPostgres(limited, address, 72)
	if err == nil {
		return pool, nil
	}
	at := "the server" // not the URL: there may be a password in it
	if u, bad := url.Parse(address); bad == nil && u.Host != "" {
		at = u.Host
	}
	return nil, unanswered(ctx, "-postgres", at, err)
}

// askZooKeeper waits for a session. The client tries again for ever, so there is no error but the time.
func askZooKeeper(ctx context.Context, servers []string) error {
	c, events, err := zk.Connect(servers, patience, zk.WithLogger(quiet{}))
	if err != nil {
		return unanswered(ctx, "-zookeeper", strings.Join(servers, ","), err)
	}
	defer c.Close()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case e, ok := <-events:
			if !ok || e.State == zk.StateHasSession {
				return nil
			}
		case <-limited.Done():
			return unanswered(ctx, "-zookeeper", strings.Join(servers, ","), limited.Err())
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
