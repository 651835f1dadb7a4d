package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/twmb/franz-go/pkg/kgo"
	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router/kafka"
)

// ledger is a table of accounts in a SQL database.
type ledger struct {
	db      *sql.DB
	dialect fence.Dialect
	fences  *fence.SQL
	table   string
	noFence bool
}

// openLedger connects to Postgres, or to SQLite in a directory if dsn is "".
func openLedger(dsn, dir, run string, noFence bool) (*ledger, error) {
	driver, of := "pgx", fence.Postgres
	if dsn == "" {
		driver, of = "sqlite", fence.SQLite
		dsn = (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(dir, "ledger.db"), RawQuery: url.Values{
			"_pragma": {"busy_timeout(30000)", "journal_mode(wal)", "synchronous(off)"},
		}.Encode()}).String()
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	if of == fence.SQLite {
		db.SetMaxOpenConns(1)
	}
	fences, err := fence.NewSQL(db, of, fence.SQLConfig{Table: "chaos_" + run})
	if err != nil {
		db.Close()
		return nil, err
	}
	return &ledger{db: db, dialect: of, fences: fences, table: "ledger_" + run, noFence: noFence}, nil
}

func (l *ledger) install(ctx context.Context) error {
	if err := l.fences.Install(ctx); err != nil {
		return err
	}
	for _, stmt := range []string{
		"CREATE TABLE %s (account TEXT PRIMARY KEY, total BIGINT NOT NULL, seq BIGINT NOT NULL, wrong BIGINT NOT NULL)",
		"CREATE TABLE %s_unfenced (part BIGINT PRIMARY KEY, next BIGINT NOT NULL)",
	} {
		if _, err := l.db.ExecContext(ctx, fmt.Sprintf(stmt, l.table)); err != nil {
			return err
		}
	}
	return nil
}

// drop removes what a run has made.
func (l *ledger) drop(ctx context.Context) {
	fences := dialect.NewFence(l.dialect, "chaos_"+l.table[len("ledger_"):])
	for _, stmt := range append(fences.Drop, "DROP TABLE IF EXISTS "+l.table, "DROP TABLE IF EXISTS "+l.table+"_unfenced") {
		_, _ = l.db.ExecContext(ctx, stmt)
	}
}

// think is how long a batch takes before it is written: when a process is stopped, some shard is in that, and when it goes on it
// writes, as one that was replaced, without another look at a clock.
const think = 20 * time.Millisecond

// told says on stderr that a fence has refused a zombie's write, for the parent to count.
func told(err error) error {
	_, fenced := errors.AsType[*fence.FencedError](err)
	_, passed := errors.AsType[*fence.PositionError](err)
	if fenced || passed {
		fmt.Fprintln(os.Stderr, refusal, err)
	}
	return err
}

const refusal = "REFUSED"

// open consumes into the ledger: effects and position in one fenced transaction.
func (l *ledger) open(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
	if l.noFence {
		return l.openUnfenced(ctx, t)
	}
	if err := l.fences.Seal(ctx, t.Token()); err != nil {
		return kafka.Partition{}, err
	}
	stream := kafka.Stream(ctx)
	from, err := l.fences.Position(ctx, t.Token(), stream)
	return kafka.Partition{
		From: from,
		Process: func(ctx context.Context, recs []*kgo.Record) error {
			time.Sleep(think)
			ctx = context.WithoutCancel(ctx) // nothing but the fence is to stop a zombie
			return told(l.fences.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
				if err := l.add(ctx, tx, recs); err != nil {
					return err
				}
				return l.fences.Advance(ctx, tx, t.Token(), stream, kafka.Next(recs))
			}))
		},
	}, err
}

// openUnfenced keeps the position beside the effects, in the same transaction, and has nothing that would refuse a zombie's.
func (l *ledger) openUnfenced(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
	from := int64(-1)
	err := l.db.QueryRowContext(ctx, fmt.Sprintf("SELECT next FROM %s_unfenced WHERE part = %d", l.table, t.Token().Shard)).Scan(&from)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return kafka.Partition{
		From: from,
		Process: func(ctx context.Context, recs []*kgo.Record) error {
			time.Sleep(think)
			ctx = context.WithoutCancel(ctx)
			tx, err := l.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := l.add(ctx, tx, recs); err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s_unfenced VALUES (%d, %d) ON CONFLICT (part) DO UPDATE SET next = excluded.next",
				l.table, t.Token().Shard, kafka.Next(recs)))
			if err != nil {
				return err
			}
			return tx.Commit()
		},
	}, err
}

// add applies entries. One that is not the next of its key is counted as wrong.
func (l *ledger) add(ctx context.Context, tx *sql.Tx, recs []*kgo.Record) error {
	for _, r := range recs {
		e, err := parseEntry(r.Value)
		if err != nil {
			return kafka.Bad(r, err)
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO %[1]s VALUES ($1, $2, $3, $4) ON CONFLICT (account) DO UPDATE SET
			total = %[1]s.total + excluded.total, seq = excluded.seq,
			wrong = %[1]s.wrong + (CASE WHEN excluded.seq = %[1]s.seq + 1 THEN 0 ELSE 1 END)`, l.table),
			string(r.Key), e.Amount, e.Seq, min(1, e.Seq-1))
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *ledger) accounts(ctx context.Context) (map[string]account, error) {
	rows, err := l.db.QueryContext(ctx, "SELECT account, total, seq, wrong FROM "+l.table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make(map[string]account)
	for rows.Next() {
		var key string
		var a account
		if err := rows.Scan(&key, &a.Sum, &a.Seq, &a.Wrong); err != nil {
			return nil, err
		}
		all[key] = a
	}
	return all, rows.Err()
}
