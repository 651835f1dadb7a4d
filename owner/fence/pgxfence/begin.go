package pgxfence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/shard"
)

// The values of pgx.TxOptions, since they become part of a statement.
var (
	levels    = []pgx.TxIsoLevel{"", pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	deferrals = []pgx.TxDeferrableMode{"", pgx.Deferrable, pgx.NotDeferrable}
)

func checkOptions(o pgx.TxOptions) error {
	switch {
	case o.AccessMode == pgx.ReadOnly:
		return refused("pgxfence: Config.Tx.AccessMode: a guarded transaction writes; use a plain one to read")
	case o.AccessMode != "" && o.AccessMode != pgx.ReadWrite:
		return refused("pgxfence: Config.Tx.AccessMode: %q is not a mode of pgx", o.AccessMode)
	case !slices.Contains(levels, o.IsoLevel):
		return refused("pgxfence: Config.Tx.IsoLevel: %q is not a level of pgx", o.IsoLevel)
	case !slices.Contains(deferrals, o.DeferrableMode):
		return refused("pgxfence: Config.Tx.DeferrableMode: %q is not a mode of pgx", o.DeferrableMode)
	case o.BeginQuery != "" || o.CommitQuery != "":
		return refused("pgxfence: Config.Tx: a BeginQuery or CommitQuery can't be guarded; leave them empty")
	}
	return nil
}

func beginStatement(o pgx.TxOptions) string {
	var b strings.Builder
	b.WriteString("begin")
	if o.IsoLevel != "" {
		b.WriteString(" isolation level " + string(o.IsoLevel))
	}
	for _, mode := range []string{string(o.AccessMode), string(o.DeferrableMode)} {
		if mode != "" {
			b.WriteString(" " + mode)
		}
	}
	return b.String()
}

// limits are what a transaction sets, beyond what its session has. They are SET, not a query that
// calls set_config: SET leaves the transaction without a snapshot, so that fn may lock before it has one.
type limits struct {
	idle string // for the next command, or ""
	read string // for results to be read, or ""
}

// settings asks the server once what its sessions have.
func (f *Fence) settings(ctx context.Context) (limits, error) {
	if known := f.server.Load(); known != nil {
		return *known, nil
	}
	var l limits
	if f.c.Idle > 0 {
		const ask = "SELECT name, setting::bigint FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'tcp_user_timeout')"
		rows, err := f.pool.Query(ctx, ask)
		if err != nil {
			return limits{}, notApplied("asking the server what it is", err)
		}
		var name string
		var ms int64
		_, err = pgx.ForEachRow(rows, []any{&name, &ms}, func() error {
			want := f.shorten(name, time.Duration(ms)*time.Millisecond)
			if name == "tcp_user_timeout" {
				l.read = want
			} else {
				l.idle = want
			}
			return nil
		})
		if err != nil {
			return limits{}, notApplied("asking the server what it is", err)
		}
	}
	f.server.Store(&l)
	return l, nil
}

// shorten returns the statement that brings a setting down to Config.Idle, or "" if it is there.
func (f *Fence) shorten(name string, has time.Duration) string {
	if 0 < has && has <= f.c.Idle {
		return ""
	}
	// A number without a unit is milliseconds. 0 would mean never.
	return fmt.Sprintf("set local %s = %d", name, max(1, f.c.Idle.Milliseconds()))
}

// opening is what begins a Tx, one statement each. They go out together.
func (f *Fence) opening(l limits, tok shard.Token) []string {
	opening := make([]string, 1, 4)
	opening[0] = f.begin
	if l.idle != "" {
		opening = append(opening, l.idle)
	}
	if l.read != "" {
		opening = append(opening, l.read)
	}
	if f.c.Terminate > 0 {
		opening = append(opening, "set local application_name = '"+f.mark(tok)+"'")
	}
	return opening
}
