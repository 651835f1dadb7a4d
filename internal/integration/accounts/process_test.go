package accounts

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tenure-go/tenure/examples/accounts/accountspb"
)

// process is the program, running.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string
	said  listening
	conn  *grpc.ClientConn
	calls pb.AccountsClient

	ended  chan struct{}
	status error // once ended is closed
}

// listening is the line of the log that says where.
type listening struct {
	Msg, HTTP, GRPC, Debug string
	EndsWithin             string `json:"ends_within"`
}

// within is how long the process says that its end takes at most.
func (p *process) within(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(p.said.EndsWithin)
	if err != nil || d <= 0 {
		t.Fatalf("%s says that it ends within %q: %v", p.name, p.said.EndsWithin, err)
	}
	return d
}

// launch starts the program and returns when it listens. It is killed when the test ends, if it still runs then.
func launch(t *testing.T, dir, name string, args, env []string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	p.cmd = exec.Command(built.path(t), args...)
	p.cmd.Env = append([]string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.SysProcAttr = childAttributes()
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listens := make(chan listening, 1)
	go func() {
		defer log.Close()
		lines := bufio.NewScanner(io.TeeReader(stderr, log))
		for lines.Scan() {
			var l listening
			if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "listening" {
				listens <- l
			}
		}
		p.status = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // if this fails it has ended already
		<-p.ended
		if p.conn != nil {
			_ = p.conn.Close()
		}
		if t.Failed() {
			t.Logf("the end of %s's log:\n%s", name, tail(p.log))
		}
	})
	select {
	case p.said = <-listens:
	case <-p.ended:
		t.Fatalf("%s ended before it listened: %v\n%s", name, p.status, tail(p.log))
	case <-time.After(time.Minute):
		t.Fatalf("%s does not listen after a minute:\n%s", name, tail(p.log))
	}
	if p.conn, err = grpc.NewClient("passthrough:///"+p.said.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	p.calls = pb.NewAccountsClient(p.conn)
	return p
}

// ready reports what /readyz does.
func (p *process) ready(ctx context.Context, c *http.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a probe's default
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.said.HTTP+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := c.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// end is what the platform does: SIGTERM, and wait; here for no longer than the process has promised. It returns how long that took.
func (p *process) end(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("end %s: %v", p.name, err)
	}
	select {
	case <-p.ended:
		if p.status != nil {
			t.Fatalf("%s ended with %v:\n%s", p.name, p.status, tail(p.log))
		}
	case <-time.After(p.within(t)):
		t.Fatalf("%s has not ended %v after SIGTERM:\n%s", p.name, time.Since(began), tail(p.log))
	}
	return time.Since(began)
}

// tail is the end of a file, for people.
func tail(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-4<<10):]))
}

// until waits until is says true.
func until(t *testing.T, patience time.Duration, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !is(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// serves checks that p becomes ready, and serves over both protocols.
func serves(t *testing.T, p *process) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	until(t, 30*time.Second, p.name+" to be ready", func() bool { return p.ready(t.Context(), client) })
	f := &fleet{running: []*process{p}}
	f.look(t.Context(), client)
	l := newLoad(f, []string{"alice", "bob"})
	l.one("HTTP", l.overHTTP)
	l.one("gRPC", l.overGRPC)
	if _, _, failed := l.counts(); len(failed) > 0 {
		t.Error(strings.Join(failed, "\n"))
	}
	l.audit(t)
}

// get is the status of what url answers with.
func get(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}
