package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		database string
		mention  string
	}{
		{"a word", []string{"word"}, "", "unexpected argument"},
		{"another database", []string{"-etcd=x:1"}, "mysql://u:secret@h/d", "want postgres"},
		{"shared database, own store", nil, "postgres://h/d", "a store that they share"},
		{"half a pair", []string{"-etcd-cert=x"}, "", "go together"},
		{"no time to shut down", []string{"-shutdown=0"}, "", "above 0"},
		{"no time to drain", []string{"-drain=-1s"}, "", "above 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			env := func(name string) string { return map[string]string{"DATABASE_URL": c.database}[name] }
			if got := run(t.Context(), c.args, env, &said); got != exitUsage || !strings.Contains(said.String(), c.mention) {
				t.Errorf("got exit status %d and %q, want %d and %q", got, said.String(), exitUsage, c.mention)
			}
			if strings.Contains(said.String(), "secret") {
				t.Errorf("a password is shown: %q", said.String())
			}
		})
	}
}

// What the manifests' grace period is measured by: docs/kubernetes.md has the same figures.
func TestLongestEnd(t *testing.T) {
	for _, c := range []struct {
		args string
		want time.Duration
	}{
		{"", 25 * time.Second},
		{"-drain=20s", 37 * time.Second},
		{"-linger=40s", 50 * time.Second},
		{"-shutdown=3s", 18 * time.Second},
	} {
		conf, err := parse(strings.Fields(c.args), func(string) string { return "" }, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if got := conf.longestEnd(); got != c.want {
			t.Errorf("%q: got %v, want %v", c.args, got, c.want)
		}
	}
}

// cue is a log that ends a context once it has a word.
type cue struct {
	word string
	end  context.CancelFunc

	mu   sync.Mutex // guards said
	said bytes.Buffer
}

func (c *cue) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Contains(b, []byte(c.word)) {
		c.end()
	}
	return c.said.Write(b)
}

func (c *cue) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.String()
}

// The program runs with nothing around it; its data from an earlier run it finds again, the store's with the accounts'. (Accounts
// alone would be refused, as another group's.)
func TestProgramFindsItsDataAgain(t *testing.T) {
	args := []string{"-data=" + t.TempDir(), "-http=127.0.0.1:0", "-grpc=127.0.0.1:0", "-debug=127.0.0.1:0", "-linger=-1ms"}
	for range 2 {
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		log := &cue{word: "owner: joined", end: end}
		if got := run(ctx, args, func(string) string { return "" }, log); got != exitGood || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("exit status %d; its log:\n%s", got, log)
		}
	}
}
