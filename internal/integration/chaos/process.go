package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// process is a child. Its methods may be called concurrently.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string
	told   atomic.Bool // it is to end: that is no failure
	exited chan struct{}
	status error // once exited is closed
}

// start starts cmd, whose stderr is appended to the file log. Lines of its stdout go to hear, if that is not nil, one
// at a time. If it ends without being told to, that goes to died.
func start(name string, cmd *exec.Cmd, log string, hear func(line []byte), died func(error)) (*process, error) {
	p := &process{name: name, cmd: cmd, log: log, exited: make(chan struct{})}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	cmd.SysProcAttr = childAttributes()
	cmd.Stderr = out
	var stdout io.Reader
	if hear != nil {
		if stdout, err = cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		if hear != nil {
			for lines := bufio.NewScanner(stdout); lines.Scan(); {
				hear(lines.Bytes())
			}
		}
		p.status = cmd.Wait()
		close(p.exited)
		if !p.told.Load() {
			died(p.failure())
		}
	}()
	return p, nil
}

// kill ends p as a crash would, stopped or not, and waits for it.
func (p *process) kill() {
	p.told.Store(true)
	_ = p.cmd.Process.Kill() // if this fails it has ended already
	<-p.exited
}

// end asks p to end and waits for that, at most so long; then it is killed. The error is that, or p's status.
func (p *process) end(ctx context.Context, patience time.Duration) error {
	p.told.Store(true)
	if err := askToEnd(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.kill()
		return fmt.Errorf("ask %s to end: %w", p.name, err)
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-p.exited:
		if p.status != nil {
			return p.failure()
		}
		return nil
	case <-timeout.C:
		p.kill()
		return fmt.Errorf("%s did not end within %v", p.name, patience)
	case <-ctx.Done():
		p.kill()
		return context.Cause(ctx)
	}
}

func (p *process) stop() error { return stopProcess(p.cmd.Process) }

func (p *process) wake() error { return continueProcess(p.cmd.Process) }

// failure says how p ended. It waits for that.
func (p *process) failure() error {
	<-p.exited
	err := p.status
	if err == nil {
		err = errors.New("it ended by itself")
	}
	return fmt.Errorf("%s: %w; the end of its log:\n%s", p.name, err, tail(p.log))
}

// tail is the end of a file, for people.
func tail(name string) []byte {
	const size = 2 << 10
	b, err := os.ReadFile(name)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(b[max(0, len(b)-size):])
}

// until waits until is says true, asking every 20 ms, at most so long.
func until(ctx context.Context, patience time.Duration, what string, is func() bool) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-timeout.C:
			return fmt.Errorf("waited %v for %s", patience, what)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// pause waits for d, or for ctx to end: then it reports false.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
