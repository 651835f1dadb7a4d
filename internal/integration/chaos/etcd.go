package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// members is how many servers etcd has.
const members = 3

// etcd is a cluster of processes, as it comes: their disks are synced to, and their clocks tick at the usual rate.
type etcd struct {
	program   string
	dir       string
	client    *clientv3.Client // to all, not through proxies
	endpoints [members]string
	peers     [members]string
	died      func(error)

	mu      sync.Mutex // guards running
	running [members]*process
}

// etcdProgram finds an etcd, or builds one into dir.
func etcdProgram(ctx context.Context, root, dir string) (string, error) {
	if p := os.Getenv("TENURE_TEST_ETCD_BIN"); p != "" {
		return p, nil
	}
	if p, err := exec.LookPath("etcd"); err == nil {
		return p, nil
	}
	p := filepath.Join(dir, "etcd-program")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "internal", "tools"), "-o", p, "go.etcd.io/etcd/server/v3")
	build.Env = append(os.Environ(), "GOWORK=off") // its requirements are to move nobody's versions
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcd (or set TENURE_TEST_ETCD_BIN): %w: %s", err, out)
	}
	return p, nil
}

// startEtcd starts the cluster with its data in dir and returns when it answers. Close it, also after an error.
func startEtcd(ctx context.Context, program, dir string, died func(error)) (*etcd, error) {
	e := &etcd{program: program, dir: dir, died: died}
	for i := range members {
		var err error
		if e.endpoints[i], err = freeAddress(); err != nil {
			return e, err
		}
		if e.peers[i], err = freeAddress(); err != nil {
			return e, err
		}
	}
	for i := range members {
		if err := e.start(i); err != nil {
			return e, err
		}
	}
	var err error
	if e.client, err = dial(e.endpoints[:]); err != nil {
		return e, err
	}
	return e, until(ctx, time.Minute, "etcd to elect a leader", func() bool { return e.leader(ctx) >= 0 })
}

// freeAddress is a port below the range that the kernel gives to clients: one of theirs could take it while a
// server that was killed is away.
func freeAddress() (string, error) {
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if l, err := net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", errors.New("found no free port")
}

func (e *etcd) start(i int) error {
	name := fmt.Sprintf("etcd-%d", i+1)
	var cluster []string
	for j, p := range e.peers {
		cluster = append(cluster, fmt.Sprintf("etcd-%d=http://%s", j+1, p))
	}
	cmd := exec.Command(e.program,
		"--name", name, "--data-dir", filepath.Join(e.dir, name), "--log-level", "warn",
		"--listen-client-urls", "http://"+e.endpoints[i], "--advertise-client-urls", "http://"+e.endpoints[i],
		"--listen-peer-urls", "http://"+e.peers[i], "--initial-advertise-peer-urls", "http://"+e.peers[i],
		"--initial-cluster", strings.Join(cluster, ","))
	p, err := start(name, cmd, filepath.Join(e.dir, name+".log"), nil, e.died)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.running[i] = p
	e.mu.Unlock()
	return nil
}

func (e *etcd) process(i int) *process {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[i]
}

// leader is the member that leads, or -1 if none of those that answer knows one.
func (e *etcd) leader(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ids := make([]uint64, members)
	leaders := make([]uint64, members)
	var asked sync.WaitGroup
	for i, at := range e.endpoints {
		asked.Go(func() {
			if s, err := e.client.Status(ctx, at); err == nil {
				ids[i], leaders[i] = s.Header.MemberId, s.Leader
			}
		})
	}
	asked.Wait()
	for i, id := range ids {
		if id != 0 && leaders[i] == id {
			return i
		}
	}
	return -1
}

// close kills all members.
func (e *etcd) close() {
	if e.client != nil {
		_ = e.client.Close()
	}
	for i := range members {
		if p := e.process(i); p != nil {
			p.kill()
		}
	}
}

// dial makes a quiet client.
func dial(endpoints []string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second,
		DialKeepAliveTime: 3 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd client for %v: %w", endpoints, err)
	}
	return c, nil
}
