//go:build unix

package main

import (
	"bufio"
	"strings"
	"syscall"
	"testing"
)

// Interrupted in the middle, with a node stopped, it leaves no process and no file behind.
func TestChaosInterrupted(t *testing.T) {
	servers(t)
	cmd, dir := command(t, "-for", "60s", "-seed", "7")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !told && strings.Contains(lines.Text(), "now: stop") {
			told = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitWrong || !told {
		t.Errorf("ended with %v, want exit status %d after it was interrupted (%t)", err, exitWrong, told)
	}
	wantNothingLeft(t, dir)
}
