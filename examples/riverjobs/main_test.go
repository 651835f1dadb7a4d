package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/examples/internal/child"
)

// TestMain is also a worker's main: the parent under test starts this test program again.
func TestMain(m *testing.M) {
	var r role
	if ok, err := child.Role(roleVariable, &r); ok {
		os.Exit(worker(context.Background(), r, err))
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	status = run(t.Context(), args, &o, &e)
	return status, o.String(), e.String()
}

func postgres(t *testing.T) string {
	t.Helper()
	database := os.Getenv("TENURE_TEST_POSTGRES")
	if database == "" {
		t.Skip("TENURE_TEST_POSTGRES names no server; see .ci/servers")
	}
	return database
}

// TestRiverjobs: each payment is made once, though workers are killed while they make it, and some are queued twice.
func TestRiverjobs(t *testing.T) {
	database := postgres(t)
	status, out, errs := start(t, "-database", database, "-payments", "40", "-kills", "2")
	if status != exitGood && status != exitControl { // a machine may be too busy for a kill to land in between
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
	if strings.Count(out, "was killed") != 2 {
		t.Errorf("want 2 kills, got:\n%s", out)
	}
}

func TestRiverjobsSaysWhatItNeeds(t *testing.T) {
	if status, out, errs := start(t); status != exitGood || !strings.Contains(out, "NOTHING WAS RUN") || errs != "" {
		t.Errorf("exit status %d, %q, %q; want 0 and what it needs", status, out, errs)
	}
	for _, args := range [][]string{{"-kills", "0"}, {"-payments", "3"}, {"word"}, {"-nonsense"}} {
		if status, _, errs := start(t, args...); status != exitUsage || errs == "" {
			t.Errorf("%v: exit status %d and %q on stderr, want %d and a reason", args, status, errs, exitUsage)
		}
	}
	for _, database := range []string{"postgres://localhost:1/none?connect_timeout=1", "books.db"} {
		if status, _, errs := start(t, "-database", database); status != exitWrong || !strings.Contains(errs, "database: ") {
			t.Errorf("%s: exit status %d and %q on stderr, want %d and a reason", database, status, errs, exitWrong)
		}
	}
}
