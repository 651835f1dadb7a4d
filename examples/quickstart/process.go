package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/tenure-go/tenure/examples/internal/child"
)

// orderLeave is the line on a node's stdin that asks it to leave, where there are no signals.
const orderLeave = "leave"

// process is a node as its parent sees it.
type process struct {
	id      string
	address string // of its HTTP server
	cmd     *exec.Cmd
	orders  io.WriteCloser // its stdin
	exited  chan struct{}
	status  error // once exited is closed
	stderr  tail
}

// startNode starts this program again, as a node, and returns once that has said where it will listen. What else it
// says goes to hear, one at a time, until it has exited. On error nothing is left running.
func startNode(ctx context.Context, c nodeConfig, stderr io.Writer, hear func(event)) (_ *process, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", c.ID, err)
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	role, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &process{id: c.ID, cmd: exec.Command(self), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+string(role))
	p.cmd.Stderr = &p.stderr
	if c.Verbose {
		p.cmd.Stderr = io.MultiWriter(&p.stderr, stderr)
	}
	child.DieWithParent(p.cmd)
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go p.listen(stdout, address, hear)

	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	select {
	case p.address = <-address:
		return p, nil
	case <-p.exited:
		return nil, p.failure()
	case <-timeout.C:
		err = errors.New("waited 20s for it to say where it listens")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.kill()
	return nil, err
}

// listen passes on what the node says, and waits for its end.
func (p *process) listen(stdout io.Reader, address chan<- string, hear func(event)) {
	defer close(p.exited)
	for said := json.NewDecoder(bufio.NewReader(stdout)); ; {
		var ev event
		if err := said.Decode(&ev); err != nil {
			break
		}
		if ev.Address != "" {
			address <- ev.Address
			continue
		}
		hear(ev)
	}
	p.status = p.cmd.Wait()
}

// kill ends the process as a crash would, stopped or not, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // if this fails it has ended already
	<-p.exited
	_ = p.orders.Close()
}

// failure says how a process ended that should not have. It waits for the end.
func (p *process) failure() error {
	<-p.exited
	err := p.status
	if err == nil {
		err = errors.New("it ended by itself")
	}
	if words := p.stderr.String(); words != "" {
		err = fmt.Errorf("%w; its last words: %s", err, words)
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex // guards end
	end []byte
}

const tailSize = 2 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, b...)
	if n := len(t.end) - tailSize; n > 0 {
		t.end = bytes.Clone(t.end[n:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}
