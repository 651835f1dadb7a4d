package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when this process is gone. The child also ends by itself when its
// stdin does, but not while it is stopped. (The kernel goes by the thread that started the child. Go ends a
// thread only with a goroutine that is locked to it, and there is none here.)
func dieWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
