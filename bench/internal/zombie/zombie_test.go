package zombie

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/bench/internal/broker"
	"github.com/tenure-go/tenure/bench/internal/embedded"
	"github.com/tenure-go/tenure/bench/internal/servers"
)

// TestMain is also the main of the holders that the tests start.
func TestMain(m *testing.M) {
	if spec := os.Getenv(Env); spec != "" {
		if err := Child(context.Background(), spec, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// Of what needs no server: the fence, the guard and the condition refuse the late write; the lock does not, nor does Tenure's lease
// without its fence, so the trial can see the fault.
func TestPause(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 5 s")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	endpoint, stop, err := embedded.Start(ctx, dir+"/etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	fake, stopFake, err := broker.Fake()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stopFake)
	a := servers.Addresses{Etcd: []string{endpoint}, Kafka: fake}
	stage, err := NewStage(ctx, dir, a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stage.Close)
	stale := map[string]bool{
		"etcd Mutex": true, "etcd Election": true, "Tenure without its fence": true,
		"Kafka, cooperative-sticky": true, "Kafka, KIP-848": true, "Tenure, router/kafka, fenced SQL": false,
		"CAS by version": false, "Tenure, fenced SQL": false, "Tenure, etcd put with Guard": false, "Tenure, cas": false,
	}
	kinds := Kinds(a)
	if len(kinds) != len(stale) {
		t.Errorf("got %d kinds, want %d", len(kinds), len(stale))
	}
	t.Run("kinds", func(t *testing.T) {
		for i, k := range kinds {
			t.Run(k.Name, func(t *testing.T) {
				t.Parallel()
				o, err := stage.Pause(ctx, k, fmt.Sprint("pause-", i))
				if err != nil {
					t.Fatal(err)
				}
				if o.Stale != stale[k.Name] || o.Blocked {
					t.Errorf("got %+v, want a stale write: %t", o, stale[k.Name])
				}
				if told := o.Told == "ok" || strings.HasPrefix(o.Told, errOffset.Error()); told != o.Stale {
					t.Errorf("the first was told %q", o.Told)
				}
			})
		}
	})
}
