package accounts

import "syscall"

// childAttributes keep a Ctrl-C the test's alone, and have the kernel kill the child when the test is gone.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
