package accounts

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

// What docs/kubernetes.md says of a container that is killed, for want of memory say, and started again in its pod: under the
// pod's name it takes over at once what it had, and does not wait for its own lease to end.
func TestKilledProcessTakesOverFromItself(t *testing.T) {
	const ttl = 40 * time.Second
	server := etcdtest.Start(t, etcdtest.Config{})
	dir := t.TempDir()
	args := []string{
		"-log-json", "-http=127.0.0.1:0", "-grpc=127.0.0.1:0", "-debug=127.0.0.1:0", "-etcd=" + server.Endpoint, "-linger=10ms",
		"-ttl=" + ttl.String(),
	}
	var env []string
	if at := postgres(t); at != "" {
		env = append(env, "DATABASE_URL="+at)
	} else {
		args = append(args, "-data="+filepath.Join(dir, "data"))
	}
	f := &fleet{running: []*process{
		launch(t, dir, "pod-a", append(args, "-id=pod-a"), env),
		launch(t, dir, "pod-b", append(args, "-id=pod-b"), env),
	}}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ready := func() bool {
		f.look(t.Context(), client)
		return len(*f.ready.Load()) == len(f.running)
	}
	until(t, 30*time.Second, "both to be ready", ready)
	accounts := oneInEachShard()
	owners := follow(t, server, accounts)
	until(t, 30*time.Second, "each account to have an owner", func() bool { return owners.all() })
	before := owners.ids()
	if before["pod-a"] == 0 || before["pod-b"] == 0 {
		t.Fatalf("shards: got %v, want both to have some", before)
	}

	_ = f.running[0].cmd.Process.Kill()
	<-f.running[0].ended
	began := time.Now()
	f.running[0] = launch(t, dir, "pod-a.again", append(args, "-id=pod-a"), env)
	until(t, ttl/2, "it to be ready again", ready)
	l := newLoad(f, accounts)
	for _, account := range accounts {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := l.overHTTP(ctx, f.pick(), account, "after", 1); err != nil {
			t.Errorf("%s: %v", account, err)
		}
		cancel()
	}
	took := time.Since(began)
	if took > ttl/2 {
		t.Errorf("%v until all was served again: want much less than the TTL of %v", took, ttl)
	}
	// The same again, over the other protocol: it is known, whoever has applied it.
	for _, account := range accounts {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := l.overGRPC(ctx, f.pick(), account, "after", 1); err != nil {
			t.Errorf("%s again: %v", account, err)
		}
		cancel()
		l.sums[account] = 1
	}
	l.audit(t)
	t.Logf("%v from the new process's start until every shard has served a request", took)
}
