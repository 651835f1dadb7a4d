//go:build !unix

package main

import (
	"errors"
	"io"
	"os"
)

// canPause: this system can't stop and continue a process by signals, so the story leaves the zombie out.
const canPause = false

func leaveSignals() []os.Signal { return nil }

func askToLeave(p *process) error {
	_, err := io.WriteString(p.orders, orderLeave+"\n")
	return err
}

func stopSelf() error { return errors.ErrUnsupported }

func wake(*process) error { return errors.ErrUnsupported }

// lock and unlock do nothing: writers then wait as SQLite has them wait.
func lock(*os.File) error   { return nil }
func unlock(*os.File) error { return nil }
