// Package servers finds the servers to measure, or starts them, and says what they are.
package servers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tenure-go/tenure/bench/internal/broker"
)

// Addresses are where the servers listen; "" and nil are none.
type Addresses struct {
	Postgres  string
	Etcd      []string
	Redis     []string
	ZooKeeper []string
	Kafka     *broker.Broker // nil: none
	Ours      bool           // started by Start: their settings may be changed
}

// redisNodes is how many independent Redis servers redsync is measured on.
const redisNodes = 5

// Start runs the servers of this machine's installed programs by the repository's .ci/servers, with their data under
// dir, until stop is called. Kafka is among them if Java and Maven are installed, by .ci/kafka. On error nothing is left running.
func Start(ctx context.Context, dir string) (a Addresses, stop func(), err error) {
	scripts, err := scripts(ctx)
	if err != nil {
		return Addresses{}, nil, err
	}
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	start := func(script, name string, servers ...string) (map[string]string, error) {
		script, d := filepath.Join(scripts, script), filepath.Join(dir, name)
		stops = append(stops, func() { _ = exec.Command("bash", script, "stop", d).Run() })
		out, err := exec.CommandContext(ctx, "bash", append([]string{script, "start", d}, servers...)...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("servers: start %s: %w\n%s", name, err, out)
		}
		return environment(filepath.Join(d, "env"))
	}
	env, err := start("servers", "first", "postgres", "etcd", "redis", "zookeeper")
	if err != nil {
		return Addresses{}, nil, err
	}
	a = Addresses{
		Postgres: env["TENURE_TEST_POSTGRES"], Etcd: []string{env["TENURE_TEST_ETCD"]}, Redis: []string{env["TENURE_TEST_REDIS"]},
		ZooKeeper: []string{env["TENURE_TEST_ZOOKEEPER"]}, Ours: true,
	}
	for n := 2; n <= redisNodes; n++ {
		env, err := start("servers", fmt.Sprint("redis-", n), "redis")
		if err != nil {
			return Addresses{}, nil, err
		}
		a.Redis = append(a.Redis, env["TENURE_TEST_REDIS"])
	}
	// Without Kafka there are still the others: it needs more than Debian's packages.
	if missing := lacks("java", "mvn"); missing != "" {
		fmt.Fprintf(os.Stderr, "no Kafka: %s is not installed\n", missing)
	} else if env, err := start("kafka", "kafka"); err != nil {
		fmt.Fprintln(os.Stderr, "no Kafka:", err)
	} else if a.Kafka, err = broker.Dial(ctx, strings.Split(env["TENURE_TEST_KAFKA"], ",")); err != nil {
		fmt.Fprintln(os.Stderr, "no Kafka:", err)
	}
	return a, stop, nil
}

func lacks(programs ...string) string {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return p
		}
	}
	return ""
}

// scripts finds .ci at the top of the repository, which the working directory is in.
func scripts(ctx context.Context) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	for ctx.Err() == nil {
		path := filepath.Join(dir, ".ci")
		if _, err := os.Stat(filepath.Join(path, "servers")); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return "", errors.New("servers: found no .ci/servers: -servers must be run inside the repository")
}

// environment reads lines of the form: export NAME='value'.
func environment(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	env := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "="); ok {
			env[name] = strings.Trim(value, "'")
		}
	}
	return env, nil
}
