//go:build !unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// supported: without signals that stop and continue a process there is no zombie, and nothing to prove.
const supported = false

func childAttributes() *syscall.SysProcAttr { return nil }

func stopProcess(*os.Process) error { return errors.ErrUnsupported }

func continueProcess(*os.Process) error { return errors.ErrUnsupported }

func askToEnd(*os.Process) error { return errors.ErrUnsupported }
