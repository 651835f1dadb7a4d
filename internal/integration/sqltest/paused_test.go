//go:build unix

package sqltest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
)

// Where the operating system stops a process that has locked a row.
const (
	idle     = "idle in transaction"       // nothing is under way
	unread   = "with an unread result"     // the server can't go on before it is read
	pipeline = "in the middle of a batch"  // the server waits for the rest of it
	guarded  = "between guard and commit"  // which holds up the seal itself
	large    = "with a large batch unread" // a Batch: its COMMIT is with the server already
)

// A process that the operating system stops inside a transaction holds its rows until the server gives
// it up, which bounds how long its successor waits; and when it goes on it finds itself refused.
func TestPausedProcess(t *testing.T) {
	for _, test := range []struct{ server, where string }{
		{"postgres", idle},
		{"postgres", unread},
		{"postgres", guarded},
		{"mariadb", idle},
		{"mariadb", unread},
		{"mariadb", guarded},
		{"pgx", idle},
		{"pgx", unread},
		{"pgx", pipeline},
		{"pgx", large},
	} {
		t.Run(test.server+" "+test.where, func(t *testing.T) {
			f := pausedSubject(t, test.server).New(t, fencetest.Options{Idle: time.Second})
			mustSeal(t, f, token(1))
			zombie := startZombie(t, test.server, test.where, accountsOf(f).table)

			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			start := time.Now()
			if p, ok := f.(*pgxFence); ok && test.where == pipeline {
				conf := p.conf
				conf.Terminate = time.Second
				f := must(pgxfence.New(p.pool, conf))
				if err := f.Seal(ctx, token(2)); err != nil {
					t.Fatal(err)
				}
			} else if err := f.Seal(ctx, token(2)); err != nil {
				t.Fatal(err)
			}
			sealed := time.Since(start)
			if err := f.Add(ctx, token(2), 1, 5); err != nil {
				t.Errorf("the stopped process's row was not freed: %v", err)
			}
			freed := time.Since(start)
			t.Logf("sealed after %s, the row was free after %s", sealed.Round(time.Millisecond), freed.Round(time.Millisecond))
			// Idle is 1 s; its default of 10 s would hold up a successor for longer than this. No tighter: servers look now and then.
			if most := 8 * time.Second; freed > most {
				t.Errorf("a successor was held up for %s, want at most %s", freed, most)
			}
			wantBalance(t, f, 1, 5)

			said := zombie.wake(t)
			if strings.HasPrefix(said, "applied") || said == "" {
				t.Errorf("the zombie said %q", said)
			}
			if test.where == idle && !strings.HasPrefix(said, "fenced 33:1 33:2") {
				t.Errorf("the zombie said %q, want it fenced", said)
			}
			t.Logf("the zombie said %q", said)
			wantBalance(t, f, 1, 5)
		})
	}
}

// SQLite has one writer, and no way to be rid of it: a stopped process keeps out everybody until it goes
// on. What it then writes is in before the seal.
func TestPausedProcess_SQLiteBlocksEverybody(t *testing.T) {
	s := sqliteIn(t.TempDir(), 200*time.Millisecond)
	f := sqlSubject(s.Server).New(t, fencetest.Options{}).(*sqlFence)
	mustSeal(t, f, token(1))
	zombie := startZombie(t, "sqlite "+s.dir, idle, f.table)
	if err := f.Seal(t.Context(), token(2)); err == nil {
		t.Error("Seal went by a stopped writer")
	}
	if err := f.Add(t.Context(), token(1), 2, 1); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("Add went by a stopped writer, or is not known to have failed: %v (%s)", err, cas.OutcomeOf(err))
	}
	if said := zombie.wake(t); said != "applied" {
		t.Errorf("the zombie said %q, want its write applied: nobody had sealed", said)
	}
	mustSeal(t, f, token(2))
	wantBalance(t, f, 1, 17)
}

// pausedSubject is a subject by the name that it has in a zombie's environment.
func pausedSubject(t testing.TB, server string) fencetest.Subject {
	switch server {
	case "pgx":
		return pgxSubject(t, pgxFenceOptions{})
	case "mariadb":
		return sqlSubject(MariaDB(t))
	}
	return sqlSubject(Postgres(t))
}

// zombie is a process that has stopped itself.
type zombie struct {
	cmd    *exec.Cmd
	stdout io.Reader
}

func startZombie(t *testing.T, server, where, table string) *zombie {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBeZombie$")
	cmd.Env = append(os.Environ(), zombieEnv+"="+strings.Join([]string{server, where, table}, "|"))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		if err == nil && got == cmd.Process.Pid {
			if !status.Stopped() {
				t.Fatalf("the zombie ended before it stopped: status %v", status)
			}
			return &zombie{cmd, stdout}
		}
	}
	t.Fatal("the zombie did not stop")
	return nil
}

// wake lets it go on, and returns its last words.
func (z *zombie) wake(t *testing.T) string {
	t.Helper()
	if err := z.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(z.stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the zombie said %q: %v", said, err)
	}
	return strings.TrimSpace(said)
}

const zombieEnv = "TENURE_TEST_ZOMBIE" // server, where to stop and table, in the process that is the zombie

// stop stops this process, until somebody continues it.
type stop func()

// TestBeZombie is what that process runs: it stops itself inside a transaction, and says what became of it.
func TestBeZombie(t *testing.T) {
	parts := strings.Split(os.Getenv(zombieEnv), "|")
	if len(parts) != 3 {
		t.Skip("TestPausedProcess starts this one")
	}
	server, where, table := parts[0], parts[1], parts[2]
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	stop := func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-continued // the stop takes a moment to reach this thread, which must not go on meanwhile
	}
	var err error
	if server == "pgx" {
		err = beZombiePgx(t, where, table, stop)
	} else {
		err = beZombieSQL(t, server, where, table, stop)
	}
	e, fenced := errors.AsType[*fence.FencedError](err)
	switch {
	case err == nil:
		fmt.Println("applied")
	case fenced:
		fmt.Println("fenced", e.Mine, e.Current)
	default:
		fmt.Printf("%s: %q\n", cas.OutcomeOf(err), err)
	}
}

func beZombieSQL(t *testing.T, server, where, table string, stop stop) error {
	dir, isSQLite := strings.CutPrefix(server, "sqlite ")
	var s Server
	flood := "SELECT repeat('x', 1000) FROM generate_series(1, 200000)"
	switch {
	case isSQLite:
		s = sqliteIn(dir, time.Second).Server
	case server == "mariadb":
		s, flood = MariaDB(t), "SELECT REPEAT('x', 1000) FROM seq_1_to_200000"
	default:
		s = Postgres(t)
	}
	db := s.Open(t)
	defer db.Close()
	f := must(fence.NewSQL(db, s.Dialect, fence.SQLConfig{Table: table, Idle: time.Second}))
	ctx := context.Background()
	write := "UPDATE " + table + "_account SET balance = 17 WHERE id = 1"
	if where == guarded {
		return commitGuarded(ctx, db, s, f, write, stop)
	}
	return f.Tx(ctx, token(1), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, write); err != nil {
			return err
		}
		if where == idle {
			stop()
			return nil
		}
		rows, err := tx.QueryContext(ctx, flood)
		if err != nil {
			return err
		}
		defer rows.Close()
		stop()
		for rows.Next() {
		}
		return rows.Err()
	})
}

// commitGuarded stops where Tx has no place to: with the guard passed, but not committed.
func commitGuarded(ctx context.Context, db *sql.DB, s Server, f *fence.SQL, write string, stop stop) error {
	conn := must(db.Conn(ctx))
	defer conn.Close()
	limit := "SET idle_in_transaction_session_timeout = 1000"
	if s.Dialect == fence.MySQL {
		limit = "SET SESSION idle_transaction_timeout = 1"
	}
	must(conn.ExecContext(ctx, limit))
	tx := must(conn.BeginTx(ctx, nil))
	must(tx.ExecContext(ctx, write))
	if err := f.Guard(ctx, tx, token(1)); err != nil {
		return err
	}
	stop()
	return tx.Commit()
}

func beZombiePgx(t *testing.T, where, table string, stop stop) error {
	pool := pgxPool(t, "", "")
	defer pool.Close()
	// Terminate names the transaction; it is the successor who ends it.
	f := must(pgxfence.New(pool, pgxfence.Config{Table: table, Idle: time.Second, Terminate: time.Second}))
	ctx := context.Background()
	write := "UPDATE " + table + "_account SET balance = 17 WHERE id = 1"
	flood := "SELECT repeat('x', 1000) FROM generate_series(1, 200000)"
	if where == large {
		b := &pgx.Batch{}
		b.Queue(write)
		b.Queue(flood).Query(func(rows pgx.Rows) error { stop(); return rows.Err() })
		return f.Batch(ctx, token(1), b)
	}
	return f.Tx(ctx, token(1), func(tx pgx.Tx) error {
		if where == pipeline {
			// As a large batch is after its first write.
			p := tx.Conn().PgConn().StartPipeline(ctx)
			p.SendQueryParams(write, nil, nil, nil, nil)
			p.SendFlushRequest()
			if err := p.Flush(); err != nil {
				return err
			}
			if _, err := p.GetResults(); err != nil { // so it has the row
				return err
			}
			stop()
			return p.Close()
		}
		if _, err := tx.Exec(ctx, write); err != nil {
			return err
		}
		if where == idle {
			stop()
			return nil
		}
		rows, err := tx.Query(ctx, flood)
		if err != nil {
			return err
		}
		defer rows.Close()
		stop()
		for rows.Next() {
		}
		return rows.Err()
	})
}

// sqliteFile is a SQLite database that two processes open.
type sqliteFile struct {
	Server
	dir string
}

func sqliteIn(dir string, busy time.Duration) sqliteFile {
	return sqliteFile{sqliteAt(fmt.Sprintf("file:%s/test.db?_pragma=journal_mode(wal)&_pragma=busy_timeout(%d)", dir, busy.Milliseconds())), dir}
}
