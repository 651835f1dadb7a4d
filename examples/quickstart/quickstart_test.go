package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// asQuickstart makes the test's own binary the program under test, in processes of its own.
const asQuickstart = "TENURE_QUICKSTART_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asQuickstart) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// run runs the program and returns its summary, its exit status and what it said on stderr.
func run(t *testing.T, args ...string) (sum summary, status int, stderr string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, args...)
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), asQuickstart+"=1", "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind in the directory for temporary files: %v, %v", left, err)
	}
	if out.Len() > 0 {
		d := json.NewDecoder(&out)
		d.DisallowUnknownFields()
		if err := d.Decode(&sum); err != nil {
			t.Fatalf("stdout is not a summary: %v\n%s", err, out.String())
		}
	}
	return sum, cmd.ProcessState.ExitCode(), errs.String()
}

// safety is what must hold however slow the machine is.
type safety struct {
	Status, Nodes, Shards, Lost, Twice, Unrefused int
	Acknowledged, Stale, Gap, Crash               bool
}

func safetyOf(sum summary, status int) safety {
	return safety{
		Status: status, Nodes: sum.Nodes, Shards: sum.Shards, Lost: sum.Lost, Twice: sum.AppliedTwice,
		Unrefused: sum.StaleAttempted - sum.StaleRefused, Stale: sum.StaleAttempted > 0,
		Acknowledged: sum.Acknowledged > 100, Gap: sum.Gap.Max > 0, Crash: sum.CrashServed > 0,
	}
}

// I6 and I10, on real processes: nothing acknowledged is lost or doubled, the zombie's write is refused,
// and no request fails for a join or a leave.
func TestQuickstart(t *testing.T) {
	sum, status, stderr := run(t, "-json", "-shards", "16", "-clients", "4")
	want := safety{
		Status: exitGood, Nodes: 4, Shards: 16,
		Acknowledged: true, Stale: canPause, Gap: true, Crash: true,
	}
	if diff := cmp.Diff(want, safetyOf(sum, status)); diff != "" {
		t.Errorf("-want +got:\n%s\nsummary: %+v\nstderr: %s", diff, sum, stderr)
	}
	if sum.FailedCalm != 0 {
		t.Errorf("%d requests failed while a node joined or left, want 0", sum.FailedCalm)
	}
}

// The negative control: the same run without the guard must be found out by the audit.
func TestQuickstartWithoutFence(t *testing.T) {
	if !canPause {
		t.Skip("no zombie without signals that stop a process")
	}
	sum, status, stderr := run(t, "-json", "-no-fence", "-shards", "16", "-clients", "4")
	if status != exitWrong {
		t.Errorf("exit status %d, want %d; stderr: %s", status, exitWrong, stderr)
	}
	if sum.Lost+sum.AppliedTwice == 0 {
		t.Errorf("no damage without a fence: %+v", sum)
	}
	if sum.StaleAttempted == 0 || sum.StaleRefused != 0 {
		t.Errorf("%d stale statements, %d refused; want some, and none refused", sum.StaleAttempted, sum.StaleRefused)
	}
}

func TestQuickstartRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-shards", "1"}, {"-clients", "0"}, {"-nonsense"}, {"word"}} {
		if _, status, stderr := run(t, args...); status != exitUsage || stderr == "" {
			t.Errorf("%v: exit status %d and %q on stderr, want %d and a reason", args, status, stderr, exitUsage)
		}
	}
}

func TestQuickstartSaysThatEtcdCannotBeReached(t *testing.T) {
	_, status, stderr := run(t, "-etcd", "127.0.0.1:1")
	if status != exitWrong || !bytes.Contains([]byte(stderr), []byte("127.0.0.1:1")) {
		t.Errorf("exit status %d and %q on stderr, want %d and the address", status, stderr, exitWrong)
	}
}
