package main

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/examples/internal/child"
)

// TestMain is also a node's main: the parent under test starts this test program again.
func TestMain(m *testing.M) {
	var r role
	if ok, err := child.Role(roleVariable, &r); ok {
		os.Exit(node(context.Background(), r, err))
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var o, e strings.Builder
	status = run(t.Context(), args, &o, &e)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind in the directory for temporary files: %v, %v", left, err)
	}
	return status, o.String(), e.String()
}

// TestPayments: on real processes, killed for real.
func TestPayments(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases to end")
	}
	status, out, errs := start(t, "-payments", "80", "-kills", "4", "-seed", "1", "-nodes", "3")
	if status != exitGood && status != exitControl { // a machine may be too busy for each phase to be hit
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
	if !strings.Contains(out, "charged   80 once, 0 more than once, 0 not at all") ||
		!strings.Contains(out, "booked    80 once, 0 more than once, 0 not at all") {
		t.Errorf("got:\n%s%s", out, errs)
	}
}

// TestPaymentsWithoutIdem is the control: the audit finds the harm that the same run does without package idem. The fence
// alone does not prevent it.
func TestPaymentsWithoutIdem(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases to end")
	}
	status, out, errs := start(t, "-payments", "80", "-kills", "4", "-seed", "1", "-nodes", "3", "-no-idem")
	if status != exitWrong || !strings.Contains(out, "WRONG") || strings.Contains(out, "charged   80 once") {
		t.Errorf("exit status %d, want %d and payments that were charged twice; got:\n%s%s", status, exitWrong, out, errs)
	}
}

// An etcd that isn't there is named, and soon.
func TestReach_NamesTheEtcdThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reach(t.Context(), address, 300*time.Millisecond); err == nil || !strings.Contains(err.Error(), "etcd at "+address) {
		t.Errorf("got %v, want an error that names %s", err, address)
	}
}

func TestPaymentsRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-payments", "1"}, {"-kills", "0"}, {"-kills", "200"}, {"-nodes", "0"}, {"-shards", "0"}, {"-nonsense"}, {"word"}, {"-database", "books.db"},
	} {
		if status, _, errs := start(t, args...); status != exitUsage || errs == "" {
			t.Errorf("%v: exit status %d and %q on stderr, want %d and a reason", args, status, errs, exitUsage)
		}
	}
	if status, _, errs := start(t, "-h"); status != exitGood || !strings.Contains(errs, "-no-idem") {
		t.Errorf("-h: exit status %d and %q", status, errs)
	}
}
