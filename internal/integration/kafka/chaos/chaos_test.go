package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asChaos makes the test's own binary the program under test, in processes of its own.
const asChaos = "TENURE_KAFKA_CHAOS_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(ordersVariable) != "" || os.Getenv(asChaos) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func runChaos(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes for some 30 s")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asChaos+"=1", "TMPDIR="+t.TempDir())
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// I6 on real processes: killed, stopped, cut off, and each record has its effect once, in the database and in the changelog.
func TestI6_ConsumersAreKilledStoppedAndCutOff(t *testing.T) {
	if status, said := runChaos(t, "-for", "20s"); status != 0 || !strings.Contains(said, "GOOD") {
		t.Errorf("exit status %d, want 0:\n%s", status, said)
	}
}

// The negative control: without the fence harm is found.
func TestI6_WithoutAFenceHarmIsDone(t *testing.T) {
	if status, said := runChaos(t, "-for", "20s", "-no-fence"); status != 1 || !strings.Contains(said, "WRONG") {
		t.Errorf("exit status %d, want 1:\n%s", status, said)
	}
}
