package writer

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/internal/integration/sqltest"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/writer"
)

// entry is a row of the journal: the command n of a producer in a process.
type entry struct {
	at, epoch            int64
	process, producer, n int
}

// bad is a command that the database refuses, and whatever is in one transaction with it.
func (e entry) bad() bool { return e.n%25 == 0 }

// journal is a fenced table that commands are appended to. The next place is kept in memory: an owner that had not loaded
// it anew, or a stale one, would take a place that is taken.
type journal struct {
	*fence.SQL
	server sqltest.Server
	db     *sql.DB
	table  string // the fence's; the entries are in table_journal
}

func openJournal(t testing.TB, s sqltest.Server, table string) *journal {
	t.Helper()
	j := &journal{server: s, db: s.Open(t), table: table}
	var err error
	if j.SQL, err = fence.NewSQL(j.db, s.Dialect, fence.SQLConfig{Table: table}); err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *journal) entries() string { return j.table + "_journal" }

func (j *journal) install(t testing.TB) {
	t.Helper()
	if err := j.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := j.db.ExecContext(t.Context(), "CREATE TABLE "+j.entries()+
		" (at BIGINT NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, process INTEGER NOT NULL, producer INTEGER NOT NULL, n INTEGER NOT NULL)"); err != nil {
		t.Fatal(err)
	}
}

func (j *journal) drop(t testing.TB) {
	for _, stmt := range append(dialect.NewFence(j.server.Dialect, j.table).Drop, "DROP TABLE IF EXISTS "+j.entries()) {
		if _, err := j.db.ExecContext(context.Background(), stmt); err != nil {
			t.Errorf("drop: %v", err)
		}
	}
	_ = j.db.Close()
}

// open is the writer.Open: it seals, and loads where the journal ends. A reply is the entry's place.
func (j *journal) open(ctx context.Context, t *owner.Tenure) (writer.Apply[entry, int64], error) {
	if err := j.Seal(ctx, t.Token()); err != nil {
		return nil, err
	}
	var last sql.NullInt64
	if err := j.db.QueryRowContext(ctx, "SELECT MAX(at) FROM "+j.entries()).Scan(&last); err != nil {
		return nil, err
	}
	end := last.Int64
	return func(ctx context.Context, batch []*writer.Cmd[entry, int64]) error {
		at := end
		err := j.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
			at = end
			var rows []string
			for _, c := range batch {
				e := c.Value
				if at++; e.bad() {
					rows = append(rows, fmt.Sprintf("(%d,0,0,0,0)", at)) // twice one key
				}
				rows = append(rows, fmt.Sprintf("(%d,%d,%d,%d,%d)", at, int64(t.Token().Epoch), e.process, e.producer, e.n))
				c.Reply(at)
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO "+j.entries()+" (at, epoch, process, producer, n) VALUES "+strings.Join(rows, ","))
			return err
		})
		if err == nil {
			end = at // memory changes only once the transaction has committed
		}
		return err
	}, nil
}

// read returns the journal in order.
func (j *journal) read(t testing.TB) (all []entry) {
	t.Helper()
	rows, err := j.db.QueryContext(t.Context(), "SELECT at, epoch, process, producer, n FROM "+j.entries()+" ORDER BY at")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.at, &e.epoch, &e.process, &e.producer, &e.n); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
