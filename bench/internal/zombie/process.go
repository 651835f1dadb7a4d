package zombie

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a child, seen from its parent.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan string // closed when the child is gone
}

func spawn(s spec) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("zombie: %w", err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("zombie: %w", err)
	}
	p := &process{cmd: exec.Command(self), replies: make(chan string, 8)}
	p.cmd.Env = append(os.Environ(), Env+"="+string(text))
	var stderr strings.Builder
	p.cmd.Stderr = &stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("zombie: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("zombie: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("zombie: %w", err)
	}
	go func() {
		defer close(p.replies)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.replies <- lines.Text()
		}
		_ = p.cmd.Wait()
		if s := strings.TrimSpace(stderr.String()); s != "" {
			p.replies <- "error " + strings.ReplaceAll(s, "\n", " ")
		}
	}()
	return p, nil
}

func (p *process) send(command string) error {
	_, err := io.WriteString(p.in, command+"\n")
	return err
}

var errSlow = errors.New("zombie: no answer in time")

// answer waits for the reply to the last command.
func (p *process) answer(ctx context.Context, d time.Duration) (string, error) {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case s, ok := <-p.replies:
		if !ok {
			return "", errors.New("zombie: the process is gone")
		}
		if text, failed := strings.CutPrefix(s, "error "); failed {
			return "", &told{text}
		}
		return s, nil
	case <-timeout.C:
		return "", errSlow
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// told is an error that the child reported.
type told struct{ text string }

func (t *told) Error() string { return t.text }

func (p *process) ask(ctx context.Context, command string, d time.Duration) (string, error) {
	if err := p.send(command); err != nil {
		return "", fmt.Errorf("zombie: %s: %w", command, err)
	}
	return p.answer(ctx, d)
}

// stop returns once the process stands still.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("zombie: stop: %w", err)
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			return fmt.Errorf("zombie: the process did not stop: %w", errors.Join(err, errSlow))
		}
		return nil
	}
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// end kills the process, which may be stopped, and waits for it.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.in.Close()
	for range p.replies { // closed once it is gone
	}
}
