package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// asChaos makes the test's own binary the program under test, in processes of its own.
const asChaos = "TENURE_CHAOS_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" || os.Getenv(asChaos) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// servers skips the test where those that it needs are not named; but CI must not pass for that.
func servers(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes for some 20 s")
	}
	for _, name := range []string{"TENURE_TEST_POSTGRES", "TENURE_TEST_ETCD_BIN"} {
		if os.Getenv(name) != "" {
			continue
		}
		how := name + " is not set: .ci/servers run go test ./... starts servers and sets it"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
}

// command is the program with args, told to keep its files in a directory of the test's.
func command(t *testing.T, args ...string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	cmd = exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asChaos+"=1", "TMPDIR="+dir)
	return cmd, dir
}

// runChaos runs the program and returns its exit status, what it printed, and its directory for files.
func runChaos(t *testing.T, args ...string) (status int, said, dir string) {
	t.Helper()
	cmd, dir := command(t, args...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out), dir
}

// wantNothingLeft fails if the program has left files or processes behind.
func wantNothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind in the directory for temporary files: %v, %v", left, err)
	}
	wantNoProcess(t, dir)
}

// wantNoProcess looks for processes that were told of dir, on systems that show what processes were told.
func wantNoProcess(t *testing.T, dir string) {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte("TMPDIR="+dir+"\x00")) {
			t.Errorf("a process is left behind: %s", filepath.Dir(name))
		}
	}
}

// I2, I6, I9 on real processes: nothing acknowledged is lost or doubled, nothing stale accepted, each register
// linearizable, and all served again in the end.
func TestI6_ChaosLosesNothing(t *testing.T) {
	servers(t)
	status, said, dir := runChaos(t, "-for", "20s", "-seed", "7")
	if status != exitGood || !strings.Contains(said, "GOOD") {
		t.Errorf("exit status %d, want %d:\n%s", status, exitGood, said)
	}
	wantNothingLeft(t, dir)
}

// The negative control: without fence and guard, writes of zombies must be found. The history that is left says the
// same when it is checked again.
func TestI6_ChaosFindsZombiesWithoutFence(t *testing.T) {
	servers(t)
	status, said, dir := runChaos(t, "-no-fence", "-for", "5s", "-ttl", "2s", "-seed", "7")
	if status != exitWrong || !strings.Contains(said, "stale write accepted") {
		t.Fatalf("exit status %d, want %d and a stale write accepted:\n%s", status, exitWrong, said)
	}
	wantNoProcess(t, dir)
	kept, err := filepath.Glob(filepath.Join(dir, "*", historyFile))
	if err != nil || len(kept) != 1 || !strings.Contains(said, kept[0]) {
		t.Fatalf("histories left: %v, %v; want one, and its name printed:\n%s", kept, err, said)
	}
	status, again, _ := runChaos(t, "-check", kept[0])
	if status != exitWrong || !strings.Contains(again, "stale write accepted") {
		t.Errorf("-check: exit status %d, want %d and a stale write accepted:\n%s", status, exitWrong, again)
	}
}

// I10 on real processes: restarts in good order fail no request.
func TestI10_RollingRestartFailsNoRequest(t *testing.T) {
	servers(t)
	status, said, dir := runChaos(t, "-rolling", "1")
	if status != exitGood || !strings.Contains(said, " 0 failed for certain, 0 uncertain") {
		t.Errorf("exit status %d, want %d, and no request failed:\n%s", status, exitGood, said)
	}
	wantNothingLeft(t, dir)
}

func TestChaosRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-for", "1s"}, {"-clients", "0"}, {"-ttl", "1s"}, {"-rolling", "-1"}, {"-no-fence", "-rolling", "1"}, {"-nonsense"}, {"word"},
	} {
		if status, said, _ := runChaos(t, args...); status != exitUsage || said == "" {
			t.Errorf("%v: exit status %d and %q, want %d and a reason", args, status, said, exitUsage)
		}
	}
}

func TestChaosSaysThatPostgresCannotBeReached(t *testing.T) {
	servers(t)
	const nobody = "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable"
	status, said, dir := runChaos(t, "-for", "5s", "-postgres", nobody)
	if status != exitWrong || !strings.Contains(said, "127.0.0.1") {
		t.Errorf("exit status %d, want %d and the address:\n%s", status, exitWrong, said)
	}
	wantNoProcess(t, dir)
}
