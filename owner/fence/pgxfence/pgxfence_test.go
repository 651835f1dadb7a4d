package pgxfence

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What needs a database is tested on a real one, in internal/integration/sqltest.

func TestNew(t *testing.T) {
	pool := new(pgxpool.Pool)
	for name, test := range map[string]struct {
		pool *pgxpool.Pool
		c    Config
		want []string // parts of the error
	}{
		"zero":       {pool: pool},
		"everything": {pool: pool, c: Config{Table: "app.fence", Tx: pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadWrite, DeferrableMode: pgx.NotDeferrable}, Idle: -1, Terminate: time.Second}},
		"no pool":    {want: []string{"pool is nil"}},
		"table":      {pool: pool, c: Config{Table: "a;b"}, want: []string{"Config.Table"}},
		"read-only":  {pool: pool, c: Config{Tx: pgx.TxOptions{AccessMode: pgx.ReadOnly}}, want: []string{"Config.Tx.AccessMode"}},
		"mode":       {pool: pool, c: Config{Tx: pgx.TxOptions{AccessMode: "; drop"}}, want: []string{"Config.Tx.AccessMode"}},
		"level":      {pool: pool, c: Config{Tx: pgx.TxOptions{IsoLevel: "; drop"}}, want: []string{"Config.Tx.IsoLevel"}},
		"deferrable": {pool: pool, c: Config{Tx: pgx.TxOptions{DeferrableMode: "; drop"}}, want: []string{"Config.Tx.DeferrableMode"}},
		"begin":      {pool: pool, c: Config{Tx: pgx.TxOptions{BeginQuery: "begin"}}, want: []string{"BeginQuery"}},
		"commit":     {pool: pool, c: Config{Tx: pgx.TxOptions{CommitQuery: "commit"}}, want: []string{"CommitQuery"}},
		"idle":       {pool: pool, c: Config{Idle: 1 << 62}, want: []string{"Config.Idle"}},
		"terminate":  {pool: pool, c: Config{Terminate: -1}, want: []string{"Config.Terminate"}},
		"all faults": {c: Config{Table: "A", Idle: 1 << 62, Terminate: -1}, want: []string{"pool is nil", "Config.Table", "Config.Idle", "Config.Terminate"}},
	} {
		_, err := New(test.pool, test.c)
		if (err == nil) != (len(test.want) == 0) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want it to name %s", name, err, want)
			}
		}
		if err != nil && cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: outcome %s", name, cas.OutcomeOf(err))
		}
	}
}

func TestBeginStatement(t *testing.T) {
	for want, o := range map[string]pgx.TxOptions{
		"begin":                                 {},
		"begin isolation level repeatable read": {IsoLevel: pgx.RepeatableRead},
		"begin isolation level serializable read write deferrable": {IsoLevel: pgx.Serializable, AccessMode: pgx.ReadWrite, DeferrableMode: pgx.Deferrable},
	} {
		if got := beginStatement(o); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBatchIsChecked(t *testing.T) {
	f, err := New(new(pgxpool.Pool), Config{})
	if err != nil {
		t.Fatal(err)
	}
	tok := shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: 33<<48 | 1}
	for _, stmt := range []string{
		"commit", "COMMIT;", "\n\tCommit", "end", "END TRANSACTION", "rollback", "Rollback to savepoint a", "abort",
		"-- name: Finish :exec\nCOMMIT", "/* a /* nested */ comment */ commit", "--\r\n/**/ -- b\n\tROLLBACK", "; commit", "prepare /* a */ transaction 'a'",
		"begin", "begin isolation level serializable", "start transaction", "PREPARE TRANSACTION 'a'",
	} {
		b := &pgx.Batch{}
		b.Queue("UPDATE account SET balance = 1")
		b.Queue(stmt)
		err := f.Batch(t.Context(), tok, b)
		if err == nil || !strings.Contains(err.Error(), "statement 2") || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%q: got %v, want it refused", stmt, err)
		}
	}
	for _, stmt := range []string{
		"UPDATE commit SET x = 1", "committed", "begins", "prepare transactional AS SELECT 1", "with x as (select 1) select 2", "",
		"-- commit", "-- commit\nUPDATE account SET balance = 1", "/* commit */ SELECT 1", "/* commit", "/* /* */ commit", "/*/ commit",
	} {
		b := &pgx.Batch{}
		b.Queue(stmt)
		if _, err := inspect(b); err != nil {
			t.Errorf("%q: got %v", stmt, err)
		}
	}
	if err := f.Batch(t.Context(), tok, nil); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("nil: got %v", err)
	}
	if err := f.Batch(t.Context(), shard.Token{}, &pgx.Batch{}); !errors.Is(err, fence.ErrToken) {
		t.Errorf("zero Token: got %v", err)
	}
}

func TestReturnsRows(t *testing.T) {
	for stmt, want := range map[string]bool{
		"UPDATE account SET balance = 1":               false,
		" insert into account values (1, 2)":           false,
		"-- name: Add :exec\nUPDATE account SET x = 1": false,
		"delete from account":                          false,
		"update account set balance = 1 RETURNING id":  true,
		"SELECT 1": true,
		"with x as (delete from a returning *) select id": true,
		"stmt_of_mine": true,
	} {
		b := &pgx.Batch{}
		b.Queue("update account set balance = 1")
		b.Queue(stmt)
		if got, err := inspect(b); got != want || err != nil {
			t.Errorf("%q: got %t, %v, want %t", stmt, got, err, want)
		}
	}
	b := &pgx.Batch{}
	for range manyResults + 1 {
		b.Queue("delete from account")
	}
	if got, err := inspect(b); !got || err != nil {
		t.Errorf("very many statements: got %t, %v, want true", got, err)
	}
}

// An error counts as a refusal only if it proves that nothing was committed.
func TestRefusals(t *testing.T) {
	pg := func(severity, code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
	}
	for _, test := range []struct {
		err            error
		commit, before bool // in place of the COMMIT's result; of an earlier one's
	}{
		{pg("ERROR", "23503"), true, true},
		{pg("ERROR", "40001"), true, true},
		{pg("ERROR", "40003"), false, false}, // statement completion unknown
		{pg("ERROR", "57014"), false, true},  // cancelled: before the commit it had no part in it
		{pg("ERROR", "53100"), false, true},
		{pg("ERROR", "55P03"), false, true},
		{pg("FATAL", "25P03"), true, true},   // the server's own: idle in transaction
		{pg("FATAL", "57P01"), false, false}, // perhaps a pooler's, that has passed the COMMIT on
		{pg("FATAL", "08P01"), false, false},
		{pg("ERROR", "08006"), false, false},
		{pg("ERROR", "58000"), false, false},
		{pg("ERROR", "XX000"), false, false},
		{pg("ERROR", ""), false, false},
		{io.ErrUnexpectedEOF, false, false},
	} {
		if got := refusedCommit(test.err); got != test.commit {
			t.Errorf("%v: refusedCommit: got %t, want %t", test.err, got, test.commit)
		}
		if got := refusedBefore(test.err); got != test.before {
			t.Errorf("%v: refusedBefore: got %t, want %t", test.err, got, test.before)
		}
	}
}

func TestMark(t *testing.T) {
	f, err := New(new(pgxpool.Pool), Config{})
	if err != nil {
		t.Fatal(err)
	}
	tok := shard.Token{Group: strings.Repeat("g", 63), GroupID: "9f86d081", Shard: 1<<16 - 1, Epoch: shard.MaxLineage<<48 | shard.MaxRevision}
	mark := f.mark(tok)
	if len(mark) != maxMark || !strings.HasPrefix(mark, f.shardMark(tok)+fmt.Sprint(int64(tok.Epoch))+" ") {
		t.Errorf("got %q (%d), want the shard's mark and the epoch, in %d bytes", mark, len(mark), maxMark)
	}
	for what, change := range map[string]func(*shard.Token){
		"shard":    func(tok *shard.Token) { tok.Shard-- },
		"group":    func(tok *shard.Token) { tok.Group = "other" },
		"group id": func(tok *shard.Token) { tok.GroupID = "other" },
	} {
		other := tok
		change(&other)
		if f.shardMark(other) == f.shardMark(tok) {
			t.Errorf("another %s has the same mark", what)
		}
	}
}
