package servers

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/rival"
)

// Facts says on what was measured: machine, versions, and what is synced to disk.
func Facts(ctx context.Context, dir string, p *rival.Places) []report.Fact {
	facts := []report.Fact{
		{Name: "machine", Value: fmt.Sprintf("%d × %s, %s/%s, %s", runtime.NumCPU(), cpu(), runtime.GOOS, runtime.GOARCH, runtime.Version())},
		{Name: "load", Value: load()},
		{Name: "fsync", Value: fsync(dir)},
	}
	add := func(name, value string, err error) {
		if err != nil {
			value = "could not be asked: " + err.Error()
		}
		facts = append(facts, report.Fact{Name: name, Value: value})
	}
	if p.Postgres != nil {
		var version, sync, commit string
		err := p.Postgres.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')").Scan(&version, &sync, &commit)
		add("Postgres", fmt.Sprintf("%s, fsync %s, synchronous_commit %s", version, sync, commit), err)
	}
	if p.SQLite != nil {
		var version string
		err := p.SQLite.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version)
		add("SQLite", version+" (modernc.org/sqlite), WAL, synchronous FULL", err)
	}
	if p.Etcd != nil {
		s, err := p.Etcd.Status(ctx, p.Etcd.Endpoints()[0])
		if err == nil {
			add("etcd", fmt.Sprintf("%s, %d endpoint(s), fsync as by default", s.Version, len(p.Etcd.Endpoints())), nil)
		} else {
			add("etcd", "", err)
		}
	}
	if len(p.Redis) > 0 {
		info, err := p.Redis[0].InfoMap(ctx, "server", "persistence").Result()
		syncs, _ := p.Redis[0].ConfigGet(ctx, "appendfsync").Result()
		add("Redis", fmt.Sprintf("%s, %d server(s), appendonly %s, appendfsync %s", info["Server"]["redis_version"], len(p.Redis),
			map[string]string{"1": "yes", "0": "no"}[info["Persistence"]["aof_enabled"]], syncs["appendfsync"]), err)
	}
	if len(p.ZooKeeper) > 0 {
		add("ZooKeeper", fmt.Sprintf("%d server(s), forceSync as by default (yes)", len(p.ZooKeeper)), nil)
	}
	if p.Kafka != nil {
		value, err := p.Kafka.Fact(ctx)
		add("Kafka", value, err)
	}
	return facts
}

func cpu() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "CPU"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "CPU"
}

// load says how busy the machine was before we began: on a shared one, ratios are worth more than rates.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return "load average " + fields[0] + " before the run (1 min)"
}

// fsync measures the disk under the data: an append of 4 KiB and a sync, as a log does it.
func fsync(dir string) string {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return err.Error()
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var took []time.Duration
	page := make([]byte, 4096)
	for range 200 {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return err.Error()
		}
		if err := f.Sync(); err != nil {
			return err.Error()
		}
		took = append(took, time.Since(start))
	}
	slices.SortFunc(took, cmp.Compare[time.Duration])
	return fmt.Sprintf("write and fsync of 4 KiB: median %s, p99 %s", took[100].Round(time.Microsecond), took[198].Round(time.Microsecond))
}
