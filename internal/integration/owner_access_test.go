package integration

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
	"github.com/tenure-go/tenure/owner"
)

// lines is a log that a test reads while it is written.
type lines struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) has(word string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), word)
}

// run runs a node on store until it ends, or until the log has word, and then until its context has.
func run(t *testing.T, store cas.Store, word string) (log *lines, err error) {
	t.Helper()
	log = &lines{}
	n, err := owner.New(store, bank, serve, owner.Config{TTL: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		select {
		case err := <-ended:
			return log, err
		case <-deadline:
			t.Fatalf("neither ended nor said %q within a minute; log:\n%s", word, log.buf.String())
		case <-tick.C:
			if word != "" && log.has(word) {
				cancel()
				return log, <-ended
			}
		}
	}
}

// TestNodeAtAStoreItCantUse: each way in which etcd can't be used at the start is told, and none is a hang: what waiting may
// mend is waited for until the context ends, what it can't is an error.
func TestNodeAtAStoreItCantUse(t *testing.T) {
	cert, key, _ := etcdtest.Certificate(t)
	secure := etcdtest.Start(t, etcdtest.Config{CertFile: cert, KeyFile: key})
	locked := etcdtest.Start(t, etcdtest.Config{})
	admin := locked.Client(t)
	for _, err := range []error{
		second(admin.UserAdd(t.Context(), "root", "r")),
		second(admin.UserGrantRole(t.Context(), "root", "root")),
		second(admin.UserAdd(t.Context(), "guest", "g")),
		second(admin.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		client clientv3.Config
		says   string // in the log, before the context is ended. "": it ends by itself
		want   error
	}{
		{"nobody listens", clientv3.Config{Endpoints: []string{"127.0.0.1:1"}}, "can't follow the store", nil},
		{"TLS needed", clientv3.Config{Endpoints: []string{secure.Endpoint}}, "TLS", nil},
		{"password needed", clientv3.Config{Endpoints: []string{locked.Endpoint}}, "", cas.ErrDenied},
		{"permission needed", clientv3.Config{Endpoints: []string{locked.Endpoint}, Username: "guest", Password: "g"}, "", cas.ErrDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := etcdkv.New(etcdtest.Dial(t, c.client))
			defer store.Close()
			_, err := run(t, store, c.says)
			if !errors.Is(err, c.want) {
				t.Errorf("Run: got %v, want %v", err, c.want)
			}
			t.Log(err)
		})
	}
}

func second[T any](_ T, err error) error { return err }
