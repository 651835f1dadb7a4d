package rival_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/bench/internal/embedded"
	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/rival"
	"github.com/tenure-go/tenure/bench/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each contender that needs no server runs, and its increments add up; those that are mistakes don't, or the audit were blind.
func TestContenders(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	endpoint, stop, err := embedded.Start(ctx, dir+"/etcd")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p, hangUp, err := servers.Open(ctx, dir, servers.Addresses{Etcd: []string{endpoint}})
	defer hangUp()
	if err != nil {
		t.Fatal(err)
	}
	run := func(w rival.Work, cs []measure.Contender) []measure.Result {
		return measure.Run(ctx, measure.Config{
			Clients: w.Clients, Rounds: 1, For: 50 * time.Millisecond, Pick: measure.Zipf(0.99, w.Accounts),
		}, cs)
	}
	w := rival.Work{Clients: 4, Accounts: 8, Shards: 2}
	for _, on := range []rival.On{rival.OnSQLite(p, w), rival.OnEtcd(p, w)} {
		for _, r := range run(w, on.Contenders) {
			if r.Err != nil || r.Acked == 0 || r.Lost != 0 || r.Doubled != 0 {
				t.Errorf("%s, %s: %d acknowledged, %d lost, %d doubled, %v", on.Name, r.Name, r.Acked, r.Lost, r.Doubled, r.Err)
			}
		}
	}
	w = rival.Work{Clients: 16, Accounts: 1}
	mistakes, _ := rival.ReadThenWrite(p, w)
	for _, r := range run(w, mistakes) {
		if r.Lost == 0 {
			t.Errorf("%s: lost nothing of %d: can the audit see it?", r.Name, r.Acked)
		}
	}
}
