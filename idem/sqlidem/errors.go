package sqlidem

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/dialect"
)

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// opError says what was being done when err came, and whether it was applied.
type opError struct {
	op      string
	err     error
	outcome cas.Outcome
}

func (e *opError) Error() string        { return "sqlidem: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error        { return e.err }
func (e *opError) Outcome() cas.Outcome { return e.outcome }

func notApplied(op string, err error) error { return &opError{op, err, cas.NotApplied} }

func uncertain(op string, err error) error {
	return &opError{op, fmt.Errorf("%w: %w", cas.ErrUncertain, err), cas.Uncertain}
}

// written is the error of a statement that commits by itself, or of a commit: not applied if the
// database says so, or if nothing was sent.
func (s *Store) written(_ context.Context, err error) error {
	const op = "writing a record"
	if s.d.FaultOf(err) != dialect.NoWord || neverSent(err) {
		return notApplied(op+s.hint(err), err)
	}
	return uncertain(op, err)
}

// neverSent reports whether no connection could be had.
func neverSent(err error) bool {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true
	}
	return errors.Is(err, driver.ErrBadConn) // what database/sql says only if nothing was sent
}

// hint helps with the most frequent mistake. SQLite has no code for it, but only text.
func (s *Store) hint(err error) string {
	if s.d == SQLite && strings.Contains(err.Error(), "no such table: "+s.c.Table) {
		return " (its table is missing: run Store.Schema in a migration, or call Store.Install)"
	}
	if s.d.FaultOf(err) == dialect.Refused {
		return " (if its table is missing: run Store.Schema in a migration, or call Store.Install)"
	}
	return ""
}
