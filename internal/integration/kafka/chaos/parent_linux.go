package main

import "syscall"

// childAttributes puts a child into a process group of its own, so that a Ctrl-C in the terminal is the
// parent's alone, and has the kernel kill it when this process is gone: the child may be stopped then, and
// could not end by itself. (The kernel goes by the thread that started the child. Go ends a thread only with a
// goroutine that is locked to it, and there is none here.)
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
