package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// turns lets one writer at a time into the database: of this process, and of all that have opened the same file.
//
// SQLite has one writer at a time in any case, but those that wait for it look again only now and then, after sleeps
// of up to 100 ms, and that would be most of what this program measures. Whoever waits for a lock on a file is woken at
// once. A database server needs nothing of the kind.
type turns struct {
	process chan struct{} // holds one while somebody of this process has the turn, or sleeps in its place
	file    *os.File
}

func openTurns(path string) (*turns, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &turns{process: make(chan struct{}, 1), file: f}, nil
}

func (t *turns) close() error { return t.file.Close() }

// hold waits for this process's lock: until release no transaction of it is open, nor begins.
func (t *turns) hold(ctx context.Context) (release func(), err error) {
	select {
	case t.process <- struct{}{}:
		return func() { <-t.process }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// take runs fn, which writes, when it is its turn.
func (t *turns) take(ctx context.Context, fn func() error) (err error) {
	release, err := t.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := lock(t.file); err != nil {
		return fmt.Errorf("lock %s: %w", t.file.Name(), err)
	}
	defer func() { err = errors.Join(err, unlock(t.file)) }()
	return fn()
}
