package integration

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

// startMembers runs an etcd cluster of n processes as they come, disks synced to and clocks at the usual rate, until the test
// ends. All clients of the server that it returns talk to the first member, which needs a majority for each commit.
func startMembers(t testing.TB, n int) *etcdtest.Server {
	t.Helper()
	program := os.Getenv("TENURE_TEST_ETCD_BIN")
	if program == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("TENURE_TEST_ETCD_BIN is not set: bash .ci/servers start DIR etcd, then source DIR/env")
		}
		t.Skip("TENURE_TEST_ETCD_BIN is not set: bash .ci/servers start DIR etcd, then source DIR/env")
	}
	addresses := make([]string, 2*n) // for clients, for peers
	var cluster []string
	for i := range addresses {
		addresses[i] = freeAddress(t)
		if i >= n {
			cluster = append(cluster, fmt.Sprintf("etcd-%d=http://%s", i-n+1, addresses[i]))
		}
	}
	dir := t.TempDir()
	for i := range n {
		name, clients, peers := fmt.Sprintf("etcd-%d", i+1), "http://"+addresses[i], "http://"+addresses[n+i]
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--name", name, "--data-dir", filepath.Join(dir, name), "--log-level", "error",
			"--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers,
			"--initial-advertise-peer-urls", peers, "--initial-cluster", strings.Join(cluster, ","))
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			if t.Failed() {
				t.Logf("%s said:\n%s", name, &said)
			}
		})
	}
	s := &etcdtest.Server{Endpoint: addresses[0]}
	client := s.Client(t)
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := client.Put(ctx, "/ready", "")
		cancel()
		if err == nil {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("a cluster of %d members took no write within a minute: %v", n, err)
		}
	}
}

// freeAddress is a port below the range that the kernel gives to clients.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if l, err := net.Listen("tcp", address); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return address
		}
	}
	t.Fatal("found no free port")
	return ""
}
