//go:build unix && !linux

package main

import "syscall"

// childAttributes puts a child into a process group of its own, so that a Ctrl-C in the terminal is the parent's alone.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
