//go:build unix

package main

import (
	"os"
	"syscall"
)

// supported: this system stops and continues processes.
const supported = true

func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func askToEnd(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
