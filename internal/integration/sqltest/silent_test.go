package sqltest

import (
	"context"
	"database/sql"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

var commits = regexp.MustCompile(`(?i)\bcommit\b`)

// hole forwards until it is silenced; from then on all is swallowed, and no connection closed.
type hole struct {
	listener net.Listener
	server   string
	atCommit func() // if not nil, the first COMMIT silences it, and this is called
	wg       sync.WaitGroup

	mu     sync.Mutex // guards the rest
	silent bool
	conns  []net.Conn
}

func newHole(t *testing.T, server string, atCommit func()) *hole {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{listener: l, server: server, atCommit: atCommit}
	h.wg.Go(h.accept)
	t.Cleanup(func() {
		_ = l.Close()
		h.mu.Lock()
		for _, c := range h.conns {
			_ = c.Close()
		}
		h.mu.Unlock()
		h.wg.Wait()
	})
	return h
}

func (h *hole) accept() {
	for {
		client, err := h.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", h.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		h.mu.Lock()
		h.conns = append(h.conns, client, server)
		h.mu.Unlock()
		h.wg.Go(func() { h.forward(server, client) })
		h.wg.Go(func() { h.forward(client, server) })
	}
}

func (h *hole) forward(to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			if !h.isSilent(nil) {
				_ = to.Close()
			}
			return
		}
		if h.isSilent(buf[:n]) {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (h *hole) isSilent(sent []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.silent && h.atCommit != nil && commits.Match(sent) {
		h.silent = true
		h.atCommit()
	}
	return h.silent
}

func (h *hole) silence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = true
}

// The network swallows what is sent, and closes nothing. A commit ends with its context, and a rollback some seconds after it
// was begun, all the same.
func TestSQL_SilentServer(t *testing.T) {
	for _, test := range []struct {
		name  string // of what is not answered
		fnErr error
		want  cas.Outcome
	}{
		{"rollback", errMind, cas.NotApplied},
		{"commit", nil, cas.Uncertain},
	} {
		for name, server := range map[string]func(testing.TB) Server{"postgres": Postgres, "mariadb": MariaDB} {
			t.Run(name+" "+test.name, func(t *testing.T) {
				t.Parallel()
				s := server(t)
				b := newBank(t, s, fence.SQLConfig{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				h := newHole(t, s.Addr, map[bool]func(){true: cancel}[test.fnErr == nil])
				db := s.Via(h.listener.Addr().String())
				f := must(fence.NewSQL(db, s.Dialect, fence.SQLConfig{Table: b.table}))
				done := make(chan error, 1)
				go func() {
					done <- f.Tx(ctx, token(1), func(tx *sql.Tx) error {
						if err := b.execIn(t, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1"); err != nil {
							return err
						}
						if test.fnErr != nil {
							h.silence()
						}
						return test.fnErr
					})
				}()
				select {
				case err := <-done:
					if got := cas.OutcomeOf(err); err == nil || got != test.want {
						t.Errorf("got %v (%s), want an error that is %s", err, got, test.want)
					}
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				case <-time.After(30 * time.Second):
					t.Fatal("Tx has not returned 30 s later")
				}
			})
		}
	}
}

// A process that is paused in the middle of its seal holds up the next one's no longer than SQLConfig.Idle.
func TestSQL_SealBehindOneThatIsPaused(t *testing.T) {
	for name, server := range map[string]func(testing.TB) Server{"postgres": Postgres, "mariadb": MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			c := fence.SQLConfig{Idle: time.Second}
			b := newBank(t, s, c)
			c.Table = b.table
			silent := make(chan struct{})
			h := newHole(t, s.Addr, func() { close(silent) })
			db := s.Via(h.listener.Addr().String())
			f := must(fence.NewSQL(db, s.Dialect, c))
			ctx, cancel := context.WithCancel(t.Context())
			paused := make(chan error, 1)
			go func() { paused <- f.Seal(ctx, token(2)) }()
			select {
			case <-silent:
			case err := <-paused:
				t.Fatalf("Seal ended before its commit: %v", err)
			}
			wait, done := context.WithTimeout(t.Context(), 30*time.Second)
			defer done()
			if err := b.Seal(wait, token(3)); err != nil {
				t.Errorf("Seal behind it: %v", err)
			}
			cancel()
			select {
			case err := <-paused:
				if err == nil {
					t.Error("the paused Seal: got nil, want an error")
				}
			case <-time.After(30 * time.Second):
				t.Fatal("the paused Seal has not returned 30 s after its context's end")
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
