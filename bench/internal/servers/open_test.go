package servers

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/bench/internal/embedded"
)

// A port that nobody listens on.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A server that is not there is named by its flag at the start, and hangUp has nothing to stumble over.
func TestOpen_SaysWhichServerIsNotThere(t *testing.T) {
	endpoint, stop, err := embedded.Start(t.Context(), t.TempDir()+"/etcd")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	nobody := closed(t)
	for want, a := range map[string]Addresses{
		"-postgres: connect: " + nobody + ": connection refused": {Postgres: "postgres://u@" + nobody + "/x?sslmode=disable"},
		"-redis: connect: " + nobody + ": connection refused":    {Redis: []string{nobody}},
		"-etcd: no answer from " + nobody + " within 5s":         {Etcd: []string{nobody}},
		"-zookeeper: no answer from " + nobody + " within 5s":    {ZooKeeper: []string{nobody}},
	} {
		flag, _, _ := strings.Cut(want, ":")
		t.Run(flag, func(t *testing.T) {
			if testing.Short() && strings.Contains(want, "5s") {
				t.Skip("takes 5 s")
			}
			if a.Etcd == nil {
				a.Etcd = []string{endpoint}
			}
			_, hangUp, err := Open(t.Context(), t.TempDir(), a)
			hangUp()
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// One who has given up is told so, and not that a server is slow.
func TestOpen_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, hangUp, err := Open(ctx, t.TempDir(), Addresses{Etcd: []string{closed(t)}})
	hangUp()
	if err == nil || err.Error() != "-etcd: context canceled" {
		t.Errorf("got %v, want -etcd: context canceled", err)
	}
}
