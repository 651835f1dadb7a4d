package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// ordersVariable holds a consuming process's orders.
const ordersVariable = "TENURE_KAFKA_CHAOS"

// fleet is the consuming processes, of which there are always so many.
type fleet struct {
	orders  orders
	procs   []*process
	started int
	killed  int
	refused int // writes of zombies that a fence refused, as the logs of ended processes tell
}

type process struct {
	id     string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// start starts one more.
func (f *fleet) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f.started++
	o := f.orders
	o.ID = fmt.Sprintf("p%d", f.started)
	told, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p := &process{id: o.ID, cmd: exec.Command(self), log: filepath.Join(o.Dir, o.ID+".log"), exited: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd.Env = append(os.Environ(), ordersVariable+"="+string(told))
	p.cmd.Stderr, p.cmd.Stdout = out, out
	p.cmd.SysProcAttr = childAttributes()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	f.procs = append(f.procs, p)
	return nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// end waits for p to be gone, and kills it if that takes long.
func (f *fleet) end(p *process, s syscall.Signal) {
	p.signal(s)
	select {
	case <-p.exited:
	case <-time.After(40 * time.Second):
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
	log, err := os.ReadFile(p.log)
	if err == nil {
		f.refused += bytes.Count(log, []byte(refusal))
	}
	for i := range f.procs {
		if f.procs[i] == p {
			f.procs = append(f.procs[:i], f.procs[i+1:]...)
			return
		}
	}
}

// ailing says which process has ended by itself.
func (f *fleet) ailing() error {
	for _, p := range f.procs {
		select {
		case <-p.exited:
			return fmt.Errorf("process %s has ended: %v; the end of its log:\n%s", p.id, p.cmd.ProcessState, tail(p.log))
		default:
		}
	}
	return nil
}

func (f *fleet) stop() {
	for _, p := range append([]*process(nil), f.procs...) {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGTERM)
	}
	for _, p := range append([]*process(nil), f.procs...) {
		f.end(p, syscall.SIGTERM)
	}
}

// tail is the end of a file, for people.
func tail(name string) []byte {
	const size = 4 << 10
	file, err := os.Open(name)
	if err != nil {
		return []byte(err.Error())
	}
	defer file.Close()
	_, _ = file.Seek(-size, io.SeekEnd)
	b, _ := io.ReadAll(file)
	return bytes.TrimSpace(b)
}

// until waits until is says true, or an error, at most so long.
func until(ctx context.Context, patience time.Duration, what string, is func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		ok, err := is()
		if ok {
			return nil
		}
		if err == nil && time.Now().After(deadline) {
			err = errors.New("time is up")
		}
		if err != nil && time.Now().After(deadline) {
			return fmt.Errorf("waited %v until %s: %w", patience, what, err)
		}
		if !pause(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
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
