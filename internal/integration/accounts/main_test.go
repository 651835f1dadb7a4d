package accounts

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

var (
	full     = flag.Bool("full", false, "rolling restarts at full size, with the library's default times: takes some six minutes")
	inFlight = flag.Int("inflight", 0, "requests in flight during rolling restarts; 0: 50, or 200 with -full")
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "etcdctl" {
		os.Exit(etcdctl(os.Args[1:]))
	}
	flag.Parse()
	status := m.Run()
	built.remove()
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// built is the program under test, built once for all tests that run it.
var built program

type program struct {
	once sync.Once
	dir  string
	err  error
}

// path builds the program as its Dockerfile does, if it is not built yet.
func (p *program) path(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program, and runs it in processes of its own")
	}
	p.once.Do(func() {
		if p.dir, p.err = os.MkdirTemp("", "tenure-accounts-test-"); p.err != nil {
			return
		}
		var cmd *exec.Cmd
		if cmd, p.err = readDockerfile(t).buildCommand(p.dir); p.err != nil {
			return
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return filepath.Join(p.dir, "accounts")
}

func (p *program) remove() {
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

// top is the repository's.
func top(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
