//go:build !linux

package accounts

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
