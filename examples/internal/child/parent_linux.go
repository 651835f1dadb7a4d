package child

import (
	"os/exec"
	"syscall"
)

// DieWithParent has the kernel kill the child when this process is gone, even while the child is stopped. Call it before
// the command is started. (The kernel goes by the thread that started the child. Go ends a thread only with a
// goroutine that is locked to it, so start none from there.)
func DieWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
