package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// nemesis does harm, one thing at a time, until ctx ends, and puts right what it did.
type nemesis struct {
	fleet   *fleet
	ttl     time.Duration
	brokers int    // that may be killed, one by one; 0: none
	script  string // .ci/kafka
	done    map[string]int
}

func (n *nemesis) run(ctx context.Context) error {
	deeds := []struct {
		name string
		do   func(context.Context) error
	}{
		{"kill", n.kill}, {"stop", n.stop}, {"stop", n.stop}, {"cut from etcd", n.cut(syscall.SIGUSR1)}, {"cut from kafka", n.cut(syscall.SIGUSR2)}, {"leave", n.leave},
	}
	if n.brokers > 0 {
		deeds = append(deeds, struct {
			name string
			do   func(context.Context) error
		}{"kill a broker", n.killBroker})
	}
	for i := 0; ; i++ {
		if !pause(ctx, time.Second+rand.N(2*time.Second)) {
			return nil
		}
		d := deeds[i%len(deeds)]
		fmt.Println("nemesis:", d.name)
		if err := d.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		n.done[d.name]++
		if err := n.fleet.ailing(); err != nil {
			return err
		}
	}
}

func (n *nemesis) victim() *process { return n.fleet.procs[rand.IntN(len(n.fleet.procs))] }

func (n *nemesis) kill(context.Context) error {
	n.fleet.killed++
	n.fleet.end(n.victim(), syscall.SIGKILL)
	return n.fleet.start()
}

func (n *nemesis) leave(context.Context) error {
	if err := n.fleet.start(); err != nil {
		return err
	}
	n.fleet.end(n.victim(), syscall.SIGTERM)
	return nil
}

// stop has a process stand still until its lease has ended and others own its shards, and then go on.
func (n *nemesis) stop(ctx context.Context) error {
	p := n.victim()
	p.signal(syscall.SIGSTOP)
	pause(ctx, n.ttl+2*time.Second)
	p.signal(syscall.SIGCONT)
	return nil
}

func (n *nemesis) cut(s syscall.Signal) func(context.Context) error {
	return func(ctx context.Context) error {
		p := n.victim()
		p.signal(s)
		pause(ctx, n.ttl+2*time.Second)
		p.signal(s)
		return nil
	}
}

// killBroker kills a broker, which leads some partitions, and starts it again.
func (n *nemesis) killBroker(ctx context.Context) error {
	dir, victim := os.Getenv("TENURE_TEST_KAFKA_DIR"), fmt.Sprint(1+rand.IntN(n.brokers))
	if out, err := exec.Command("bash", n.script, "kill", dir, victim).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	pause(ctx, 5*time.Second)
	if out, err := exec.Command("bash", n.script, "restart", dir, victim).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	pause(ctx, 5*time.Second) // until it is in sync again: the next one killed would leave too few
	return nil
}

// mortal is how many brokers may be killed: those that .ci/kafka has started, if there are three at least.
func mortal() (n int, script string) {
	addrs := strings.Split(os.Getenv("TENURE_TEST_KAFKA"), ",")
	if os.Getenv("TENURE_TEST_KAFKA_DIR") == "" || len(addrs) < 3 {
		return 0, ""
	}
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		script = filepath.Join(dir, ".ci", "kafka")
		if _, serr := os.Stat(script); serr == nil {
			return len(addrs), script
		}
		dir = filepath.Dir(dir)
	}
	return 0, ""
}
