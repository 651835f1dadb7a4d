package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
)

// postgres is a schema of the run's own in a database.
type postgres struct {
	url    *url.URL // with the schema as search path
	schema string
	db     *sql.DB // not through a proxy
	stop   func()  // the server, if it was started for the run
}

// openPostgres makes a schema in the database at address, or in one that it starts under dir if that is "". Close it,
// also after an error.
func openPostgres(ctx context.Context, address, root, dir, schema string) (*postgres, error) {
	p := &postgres{schema: schema, stop: func() {}}
	if address == "" {
		if err := p.start(ctx, root, filepath.Join(dir, "servers"), &address); err != nil {
			return p, err
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return p, fmt.Errorf("-postgres %q: want postgres://USER@HOST:PORT/DATABASE (%v)", address, err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	q.Set("application_name", schema)
	u.RawQuery = q.Encode()
	p.url = u
	if p.db, err = sql.Open("pgx", u.String()); err != nil {
		return p, err
	}
	if _, err := p.db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return p, fmt.Errorf("make schema %s: %w", schema, err)
	}
	for _, s := range tables {
		if _, err := p.db.ExecContext(ctx, s); err != nil {
			return p, fmt.Errorf("make tables: %w", err)
		}
	}
	return p, nil
}

// start has .ci/servers start a Postgres whose programs are installed, and stop ends it.
func (p *postgres) start(ctx context.Context, root, dir string, address *string) error {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
		return errors.New("no Postgres: name one by -postgres or TENURE_TEST_POSTGRES, or install Debian's package postgresql. " +
			"SQLite can't stand in: a process that is stopped inside a transaction would lock it for everybody")
	}
	script := filepath.Join(root, ".ci", "servers")
	p.stop = func() { _ = exec.Command("bash", script, "stop", dir).Run() }
	cmd := exec.CommandContext(ctx, "bash", script, "start", dir, "postgres")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("start Postgres: %w: %s", err, out)
	}
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(env)); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "export TENURE_TEST_POSTGRES="); ok {
			*address = strings.Trim(v, "'")
		}
	}
	return nil
}

// via is the database's URL with another host and port in it: those of a proxy.
func (p *postgres) via(address string) string {
	u := *p.url
	u.Host = address
	return u.String()
}

// others counts the sessions of this run that are not this process's.
func (p *postgres) others(ctx context.Context) (n int, err error) {
	p.db.SetMaxIdleConns(0) // ours, but the one that asks
	err = p.db.QueryRowContext(ctx,
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()", p.schema).Scan(&n)
	return n, err
}

func (p *postgres) close() {
	if p.db != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, _ = p.db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+p.schema+" CASCADE") // the server may be gone
		cancel()
		_ = p.db.Close()
	}
	p.stop()
}
