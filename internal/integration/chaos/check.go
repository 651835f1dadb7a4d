package main

import (
	"fmt"
	"io"
	"path/filepath"
)

// checkFile checks a history that was kept. Pictures go next to it.
func checkFile(name string, out io.Writer) error {
	h, err := readHistory(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d operations, %d rows, %d registers, %d faults (%s)\n",
		h.Command, len(h.ops), len(h.rows), len(h.finals), len(h.faults), summary(h.faults))
	if err := h.check(filepath.Dir(name)); err != nil {
		return err
	}
	fmt.Fprintln(out, "GOOD: linearizable, and every acknowledged write is there once")
	return nil
}
