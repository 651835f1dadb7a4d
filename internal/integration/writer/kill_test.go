package writer

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

// kills is how many owners are killed.
const kills = 8

// patience bounds how long a new owner may take until it serves.
const patience = 30 * time.Second

// A process that serves a Writer is killed while commands come in, again and again, and the next one goes on. Each command that was
// acknowledged is in the database once, at the place that it was told, in the order in which its producer sent them; one
// that failed for certain is not there; one that nobody was told about is there at most once.
func TestKill(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := openJournal(t, server(t, name, path), fmt.Sprintf("kill_%d", os.Getpid()))
			defer j.drop(t)
			j.install(t)
			etcd := etcdtest.Start(t, etcdtest.Config{})
			client := etcd.Client(t)
			arg := strings.Join([]string{name, path, j.table, etcd.Endpoint}, "|")
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))

			processes := []*process{startProcess(t, 1, arg)}
			for k := range kills {
				current := processes[k]
				current.await(t, 1) // it owns the shard
				processes = append(processes, startProcess(t, k+2, arg))
				current.await(t, 50+random.IntN(400))
				current.kill(t)
				current.expire(t, client)
			}
			last := processes[kills]
			last.await(t, 100)
			last.end(t)
			checkJournal(t, j.read(t), processes)
		})
	}
}

// process is an owner, and what its producers were told.
type process struct {
	number int
	cmd    *exec.Cmd
	stdin  io.Closer
	read   chan struct{} // closed when its stdout has ended

	mu   sync.Mutex // guards said
	said []told
}

type told struct {
	word string // ack, no, withdrawn
	entry
}

func startProcess(t *testing.T, number int, arg string) *process {
	t.Helper()
	p := &process{number: number, read: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestBeOwner$")
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", ownerEnv, arg, number))
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.hear(stdout)
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			<-p.read
			_ = p.cmd.Wait()
		}
	})
	return p
}

func (p *process) hear(stdout io.Reader) {
	defer close(p.read)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		s := told{entry: entry{process: p.number}}
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d %d", &s.word, &s.producer, &s.n, &s.at); err != nil {
			continue // a word of package testing's, or a line that was cut off
		}
		p.mu.Lock()
		p.said = append(p.said, s)
		p.mu.Unlock()
	}
}

// heard returns what its producers were told up to now.
func (p *process) heard() []told {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// await waits until its producers were told n things.
func (p *process) await(t *testing.T, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(p.heard()) < n; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("process %d: heard %d answers in %v, want %d", p.number, len(p.heard()), patience, n)
		}
	}
}

// kill ends it as a crash would.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("process %d ended by itself: %v", p.number, err)
	}
	<-p.read
	_ = p.cmd.Wait() // it was killed
}

// end lets it leave in good order.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	<-p.read
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("process %d: %v", p.number, err)
	}
}

// expire ends the lease of a process that is dead, so that nobody has to wait for it.
func (p *process) expire(t *testing.T, client *clientv3.Client) {
	t.Helper()
	key := fmt.Sprintf("/tenure/%s/members/owner-%d", group.Name, p.number)
	got, err := client.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		if _, err := client.Revoke(t.Context(), clientv3.LeaseID(kv.Lease)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkJournal holds the journal against what the producers were told.
func checkJournal(t *testing.T, journal []entry, processes []*process) {
	t.Helper()
	type command struct{ process, producer, n int }
	found := make(map[command]int64)
	last := make(map[[2]int]int) // n by process and producer
	var epoch int64
	for i, e := range journal {
		c := command{e.process, e.producer, e.n}
		if e.at != int64(i+1) {
			t.Fatalf("entry %d is at %d: an owner did not know where the journal ended", i+1, e.at)
		}
		if found[c] != 0 {
			t.Errorf("%+v is at %d and at %d", c, found[c], e.at)
		}
		found[c] = e.at
		if e.epoch < epoch {
			t.Errorf("entry %d has epoch %d, after %d (I6)", e.at, e.epoch, epoch)
		}
		epoch = e.epoch
		if by := [2]int{e.process, e.producer}; e.n <= last[by] {
			t.Errorf("%+v is behind command %d of its producer", c, last[by])
		} else {
			last[by] = e.n
		}
		if e.bad() {
			t.Errorf("%+v is in the journal, and the database had refused it", c)
		}
	}
	acks, refusals := 0, 0
	for _, p := range processes {
		for _, s := range p.heard() {
			at := found[command{s.process, s.producer, s.n}]
			switch {
			case s.word == "ack" && at != s.at:
				t.Errorf("%+v was acknowledged, and is at %d", s.entry, at)
			case s.word != "ack" && at != 0:
				t.Errorf("%+v was said not to be applied, and is at %d", s.entry, at)
			case s.word == "no" && !s.bad():
				t.Errorf("%+v was refused because of another command of its batch", s.entry)
			}
			switch s.word {
			case "ack":
				acks++
			case "no":
				refusals++
			}
		}
	}
	if refusals == 0 {
		t.Error("the database refused no command: no batch was split")
	}
	t.Logf("%d entries, %d acknowledged, %d refused, %d owners killed", len(journal), acks, refusals, kills)
}
