// Package rival holds the contenders: the ways in which Go programs serialize changes of one account, each through the client that
// people use and as that client's documentation says, and Tenure's own.
//
// What is measured is the same change of one account. Where a lock guards it, the holder of the lock reads the balance and
// writes the new one, or sends the one UPDATE that does both, as the contender's name says.
package rival

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/bench/internal/broker"
	"github.com/tenure-go/tenure/bench/internal/measure"
)

// Places are the servers that contenders use, opened; what is nil or empty is not there. Safe for concurrent use.
type Places struct {
	Postgres  *pgxpool.Pool
	SQLite    *sql.DB
	Etcd      *clientv3.Client
	Redis     []*redis.Client // independent servers
	ZooKeeper []string        // one ensemble's addresses
	Kafka     *broker.Broker

	Run  string // tells the names of this run from those of another on the same servers: [a-z0-9]+
	made atomic.Int64
}

// name is a new one, for tables, groups and prefixes.
func (p *Places) name(what string) string {
	return fmt.Sprintf("bench_%s_%s_%d", what, p.Run, p.made.Add(1))
}

// keys are the accounts' names.
func keys(accounts int) []string {
	names := make([]string, accounts)
	for i := range names {
		names[i] = "account-" + strconv.Itoa(i)
	}
	return names
}

// Work is what a table's contenders are to do.
type Work struct {
	Clients, Accounts int
	Shards            int // of Tenure's group
}

// do is what measure.Instance.Do is.
type do = func(ctx context.Context, client, account int) error

// On is a resource that holds balances, with the contenders that change them.
type On struct {
	Name       string
	Contenders []measure.Contender
}
