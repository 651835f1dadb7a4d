package pgxidem

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

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

func (e *opError) Error() string        { return "pgxidem: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error        { return e.err }
func (e *opError) Outcome() cas.Outcome { return e.outcome }

func notApplied(op string, err error) error { return &opError{op + hint(err), err, cas.NotApplied} }

// written is the error of what commits: not applied if the server says so, or if nothing was sent.
func written(op string, err error) error {
	if pgconn.SafeToRetry(err) || dialect.Postgres.FaultOf(err) != dialect.NoWord {
		return notApplied(op, err)
	}
	return &opError{op, fmt.Errorf("%w: %w", cas.ErrUncertain, err), cas.Uncertain}
}

// divided reports whether the server has refused a statement that was to find just one row.
func divided(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "22012" // division by zero
}

// hint helps with the most frequent mistake.
func hint(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42P01" {
		return " (the table is missing: run Store.Schema in a migration, or call Store.Install)"
	}
	return ""
}
