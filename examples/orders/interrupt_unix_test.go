//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Interrupted in the middle, it leaves no process and no file behind.
func TestOrdersInterrupted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), asOrders+"=1", "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := -cmd.Process.Pid
	t.Cleanup(func() { _ = syscall.Kill(group, syscall.SIGKILL) })

	// As a terminal does on Ctrl-C: to all of them.
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "records come in") {
			if err := syscall.Kill(group, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitWrong {
		t.Errorf("ended with %v, want exit status %d", err, exitWrong)
	}
	// The kernel forgets a killed process a little after its parent was told.
	for deadline := time.Now().Add(10 * time.Second); ; {
		err := syscall.Kill(group, 0)
		if errors.Is(err, syscall.ESRCH) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes are left behind: signal 0 to the group says %v", err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind in the directory for temporary files: %v, %v", left, err)
	}
}
