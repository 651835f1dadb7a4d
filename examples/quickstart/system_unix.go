//go:build unix

package main

import (
	"os"
	"syscall"
)

// canPause: this system stops and continues processes, so there can be a zombie.
const canPause = true

func leaveSignals() []os.Signal { return []os.Signal{syscall.SIGTERM} }

func askToLeave(p *process) error { return p.cmd.Process.Signal(syscall.SIGTERM) }

func stopSelf() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

func wake(p *process) error { return p.cmd.Process.Signal(syscall.SIGCONT) }

func lock(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
