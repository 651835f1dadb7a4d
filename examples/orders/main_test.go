package main

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/examples/internal/child"
)

// asOrders makes the test's own binary the program under test.
const asOrders = "TENURE_ORDERS_TEST"

// TestMain is also a node's main: the parent under test starts this test program again.
func TestMain(m *testing.M) {
	var r role
	if ok, err := child.Role(roleVariable, &r); ok {
		os.Exit(nodeMain(r, err))
	}
	if os.Getenv(asOrders) != "" {
		main()
		return
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

// The whole story, on real processes, one of which is killed for real.
func TestOrders(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to end")
	}
	status, out, errs := start(t, "-records", "600", "-for", "3s", "-shards", "6")
	if status != exitGood {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
	for _, want := range []string{
		"600 in both topics, 6 of them spoilt", "594: 0 lost, 0 twice, 0 out of", "6 of the spoilt records, 0 missing, 0 wrong",
		"node-1 has left", "node-2 was killed", "node-2-again was started", "GOOD",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in the output:\n%s", want, out)
		}
	}
}

func TestOrdersRefusesBadArguments(t *testing.T) {
	for arg, want := range map[string]string{
		"-records=99":             "-records 99: want 100 to",
		"-for=1ms":                "-for 1ms: want 1s",
		"-processes=2":            "-processes 2: want 3",
		"-shards=3":               "-shards 3: want 4",
		"-brokers=localhost":      `-brokers: "localhost" is not HOST:PORT`,
		"-brokers=a:1,,b:2":       `-brokers: "" is not HOST:PORT`,
		"-etcd=:2379":             `-etcd: ":2379" is not HOST:PORT`,
		"-limit=-1s":              "-limit -1s: want more",
		"-nonsense":               "not defined",
		"word":                    `unexpected argument "word"`,
		"-processes=9 -shards=10": "",
		"-processes=9 -shards=8":  "one for each process",
	} {
		if want == "" {
			if _, err := parse(strings.Fields(arg), &strings.Builder{}); err != nil {
				t.Errorf("%s: got %v, want that it is taken", arg, err)
			}
			continue
		}
		if status, _, errs := start(t, strings.Fields(arg)...); status != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit status %d and %q, want %d and %q", arg, status, errs, exitUsage, want)
		}
	}
}

func TestOrdersSaysWhatCannotBeReached(t *testing.T) {
	for _, flag := range []string{"-etcd", "-brokers"} {
		t.Run(flag, func(t *testing.T) {
			status, _, errs := start(t, flag, "127.0.0.1:1")
			if status != exitWrong || !strings.Contains(errs, "127.0.0.1:1") {
				t.Errorf("exit status %d and %q on stderr, want %d and the address", status, errs, exitWrong)
			}
		})
	}
}
