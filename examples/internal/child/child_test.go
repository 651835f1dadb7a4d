package child_test

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/examples/internal/child"
)

const variable = "TENURE_CHILD_TEST"

// role is how many reports to make, and what to do then.
type role struct {
	Reports int
	Exit    bool
}

func TestMain(m *testing.M) {
	var r role
	if ok, err := child.Role(variable, &r); ok {
		if err != nil {
			panic(err)
		}
		_ = child.Tell(os.Getpid())
		for i := range r.Reports {
			if child.Tell(i) != nil {
				os.Exit(4)
			}
		}
		if r.Exit {
			os.Exit(3)
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals)
		<-signals // which a kill is not
	}
	goleak.VerifyTestMain(m)
}

func TestReportsOfAKilledChild(t *testing.T) {
	f := child.New[int](variable)
	defer f.Stop()
	if err := f.Start("a", role{Reports: 300}); err != nil { // more than the channel holds: nobody reads yet
		t.Fatal(err)
	}
	pid := <-f.Reports()
	var got []int
	for len(got) < 200 {
		got = append(got, <-f.Reports())
	}
	f.Kill("a") // with reports on their way, which must not keep it
	f.Kill("a")
	if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
		t.Error("Kill has returned, and the child is alive")
	}
	got = append(got, f.Stop()...)
	if len(got) > 300 {
		t.Fatalf("got %d reports, want at most 300", len(got))
	}
	want := make([]int, len(got))
	for i := range want {
		want[i] = i
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := f.Start("b", role{}); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("after Stop: got %v, want a refusal", err)
	}
}

func TestChildThatEndsByItself(t *testing.T) {
	f := child.New[int](variable)
	defer f.Stop()
	if err := f.Start("a", role{Exit: true}); err != nil {
		t.Fatal(err)
	}
	want := "child: a ended by itself: exit status 3"
	if err := <-f.Failed(); fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
