// Package child runs an example's nodes as processes of their own, so that they can be killed: the example's program
// again, in another role. The parent plans, kills and bears witness; the children report to it on their standard
// output, a line of JSON at a time.
package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// Role reads into role what Fleet.Start has been given, if it was that which started this process; ok is false in any
// other. Programs ask it first, before they read their flags.
func Role(variable string, role any) (ok bool, err error) {
	text := os.Getenv(variable)
	if text == "" {
		return false, nil
	}
	if err := json.Unmarshal([]byte(text), role); err != nil {
		return true, fmt.Errorf("child: the variable %s: %w", variable, err)
	}
	return true, nil
}

// Tell reports to the parent, in one write: a kill leaves all of it or nothing. Safe for concurrent use.
func Tell(report any) error {
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(text, '\n'))
	return err
}

// Fleet is a program's children. Make it with New; safe for concurrent use.
type Fleet[Report any] struct {
	variable string
	reports  chan Report
	failed   chan error
	readers  sync.WaitGroup
	closing  sync.Once

	mu      sync.Mutex // guards the rest
	alive   map[string]*process
	stopped bool
}

type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// New returns a fleet without children. They find their role in the environment under variable.
func New[Report any](variable string) *Fleet[Report] {
	return &Fleet[Report]{
		variable: variable, reports: make(chan Report, 100), failed: make(chan error, 1), alive: make(map[string]*process),
	}
}

// Reports are what the children tell, each one's in the order in which it told them. Somebody must read them until Stop.
// Lines that are no reports are dropped.
func (f *Fleet[Report]) Reports() <-chan Report { return f.reports }

// Failed gets the first error of a child that ended by itself.
func (f *Fleet[Report]) Failed() <-chan error { return f.failed }

// Start starts this program again, in role, which goes there as JSON. name is for Kill; a name is used once.
func (f *Fleet[Report]) Start(name string, role any) error {
	if err := f.start(name, role); err != nil {
		return fmt.Errorf("child: start %s: %w", name, err)
	}
	return nil
}

func (f *Fleet[Report]) start(name string, role any) error {
	text, err := json.Marshal(role)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// A pipe of our own, not the command's: Kill waits for the process and not for the reader, who waits for the
	// reports' reader, who may be the one that kills.
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	p := &process{cmd: exec.Command(self), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), f.variable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = write, os.Stderr
	DieWithParent(p.cmd)

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		err = errors.New("the fleet was stopped")
	} else {
		err = p.cmd.Start()
	}
	if err != nil {
		return errors.Join(err, read.Close())
	}
	f.alive[name] = p
	f.readers.Go(func() { f.read(read) })
	f.readers.Go(func() { f.wait(name, p) })
	return nil
}

func (f *Fleet[Report]) read(from *os.File) {
	defer from.Close()
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err == nil {
			f.reports <- r
		}
	}
}

func (f *Fleet[Report]) wait(name string, p *process) {
	err := p.cmd.Wait()
	close(p.exited)
	f.mu.Lock()
	_, unexpected := f.alive[name]
	delete(f.alive, name)
	f.mu.Unlock()
	if !unexpected {
		return
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	select {
	case f.failed <- fmt.Errorf("child: %s ended by itself: %w", name, err):
	default:
	}
}

// Kill ends a child as a crash would, and returns when it is dead: what it has done until then is all it will have
// done. Its last reports may still be on their way. It does nothing if there is none of that name.
func (f *Fleet[Report]) Kill(name string) {
	f.mu.Lock()
	p := f.alive[name]
	delete(f.alive, name)
	f.mu.Unlock()
	if p != nil {
		_ = p.cmd.Process.Kill() // if this fails it has ended already
		<-p.exited
	}
}

// Stop kills them all, and returns the reports that were still to be read. Nothing is left running.
func (f *Fleet[Report]) Stop() []Report {
	f.closing.Do(func() {
		f.mu.Lock()
		f.stopped = true
		for _, p := range f.alive {
			_ = p.cmd.Process.Kill() // as in Kill
		}
		clear(f.alive)
		f.mu.Unlock()
		go func() {
			f.readers.Wait()
			close(f.reports)
		}()
	})
	var last []Report
	for r := range f.reports {
		last = append(last, r)
	}
	return last
}
