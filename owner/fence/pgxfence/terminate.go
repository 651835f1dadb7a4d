package pgxfence

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/tenure-go/tenure/shard"
)

// maxMark is how much of an application_name Postgres keeps.
const maxMark = 63

// mark is the application_name of a transaction under tok: what another owner of the shard finds it
// by, then its epoch, then what tells a person more.
func (f *Fence) mark(tok shard.Token) string {
	mark := f.shardMark(tok) + strconv.FormatInt(int64(tok.Epoch), 10) + " " + tok.Group + "/" + strconv.Itoa(tok.Shard)
	return mark[:min(len(mark), maxMark)] // the token was checked: all of it is ASCII
}

// shardMark begins the names of all transactions under this fence of tok's shard, whatever the epoch.
func (f *Fence) shardMark(tok shard.Token) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %s %d", f.c.Table, tok.Group, tok.GroupID, tok.Shard)
	return fmt.Sprintf("tenure %016x ", h.Sum64())
}

// older are the sessions that are in a transaction under an older epoch of the shard. A session has
// such a name only inside of that transaction, so it is no other's by the time it is looked at,
// save in the moment between: then an innocent transaction is ended, and its owner told.
const older = ` FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ` +
	`AND starts_with(application_name, $1) AND ` +
	`CASE WHEN split_part(application_name, ' ', 3) ~ '^[0-9]{1,18}$' THEN split_part(application_name, ' ', 3)::bigint < $2 ELSE false END`

const (
	countOlder = `SELECT count(*)` + older
	endOlder   = `SELECT count(pg_terminate_backend(pid))` + older
)

// pollOlder is how often endOlder looks. It matters only while there is something to wait for.
const pollOlder = 20 * time.Millisecond

// endOlder returns when no transaction of an older owner is open: after Config.Terminate it ends those
// that are. wanted is raised, so a new transaction can't pass the long way. One with an older snapshot can, and then others the
// short way. So the generation is set after each look, and it is over when two looks in a row find none.
func (f *Fence) endOlder(ctx context.Context, tok shard.Token) error {
	patience := time.NewTimer(f.c.Terminate)
	defer patience.Stop()
	query, quiet := countOlder, false
	for {
		var n int64
		if err := f.pool.QueryRow(ctx, query, f.shardMark(tok), int64(tok.Epoch)).Scan(&n); err != nil {
			return fmt.Errorf("ending older owners' sessions (Config.Terminate): %w", err)
		}
		if n == 0 && quiet {
			return nil
		}
		if err := f.renew(ctx); err != nil {
			return err
		}
		if quiet = n == 0; quiet {
			continue
		}
		select {
		case <-patience.C:
			query = endOlder
		case <-time.After(pollOlder):
		case <-ctx.Done():
			return fmt.Errorf("%d sessions of older owners are open: %w", n, context.Cause(ctx))
		}
	}
}
