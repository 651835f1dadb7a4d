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

	"github.com/tenure-go/tenure/internal/fencetest"
	"github.com/tenure-go/tenure/owner/fence"
)

// A process that the operating system stops inside a transaction: it holds its rows until the
// server gives it up, and when it goes on it finds itself fenced.
func TestPausedProcess(t *testing.T) {
	for name, server := range map[string]func(testing.TB) fencetest.Server{"postgres": Postgres, "mariadb": MariaDB} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, server(t), fence.SQLConfig{Idle: time.Second})
			zombie := exec.Command(os.Args[0], "-test.run=^TestBeZombie$")
			zombie.Env = append(os.Environ(), zombieEnv+"="+name+" "+b.table)
			zombie.Stderr = os.Stderr
			stdout, err := zombie.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := zombie.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = zombie.Process.Kill(); _ = zombie.Wait() })
			waitStopped(t, zombie.Process.Pid)

			b.seal(t, 2) // does not wait: the zombie has not passed its guard
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			start := time.Now()
			err = b.Tx(ctx, token(2), func(tx *sql.Tx) error {
				return b.execIn(t, tx, "UPDATE {account} SET balance = balance + 5 WHERE id = 1")
			})
			if err != nil {
				t.Errorf("the stopped process's row was not freed: %v", err)
			}
			t.Logf("the row was free after %s", time.Since(start).Round(time.Millisecond))

			if err := zombie.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(bufio.NewReader(stdout))
			if err != nil {
				t.Fatal(err)
			}
			if want := "fenced 33:1 33:2\n"; !strings.HasPrefix(string(said), want) {
				t.Errorf("the zombie said %q, want %q", said, want)
			}
			b.wantBalance(t, 1, 5)
		})
	}
}

// waitStopped waits until the process has stopped itself.
func waitStopped(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		if err == nil && got == pid {
			if !status.Stopped() {
				t.Fatalf("the zombie ended before it stopped: status %v", status)
			}
			return
		}
	}
	t.Fatal("the zombie did not stop")
}

const zombieEnv = "TENURE_TEST_ZOMBIE" // server and table, in the process that is the zombie

// TestBeZombie is what that process runs: it stops itself inside a transaction, and says what
// became of it.
func TestBeZombie(t *testing.T) {
	name, table, ok := strings.Cut(os.Getenv(zombieEnv), " ")
	if !ok {
		t.Skip("TestPausedProcess starts this one")
	}
	s := Postgres
	if name == "mariadb" {
		s = MariaDB
	}
	server := s(t)
	db := server.Open(t)
	defer db.Close()
	f, err := fence.NewSQL(db, server.Dialect, fence.SQLConfig{Table: table, Idle: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	err = f.Tx(ctx, token(1), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE "+table+"_account SET balance = 17 WHERE id = 1"); err != nil {
			return err
		}
		err := syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-continued // the stop takes a moment to reach this thread, which must not go on meanwhile
		return err
	})
	e, ok := errors.AsType[*fence.FencedError](err)
	if !ok {
		t.Fatalf("got %v, want FencedError", err)
	}
	fmt.Println("fenced", e.Mine, e.Current)
}
