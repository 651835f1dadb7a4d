//go:build !unix

package compare

import (
	"errors"
	"os"
)

var errPause = errors.New("compare: Faults needs SIGSTOP, which this system has not")

func pause(*os.Process) error  { return errPause }
func resume(*os.Process) error { return errPause }
