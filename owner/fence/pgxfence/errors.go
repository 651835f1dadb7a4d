package pgxfence

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/dialect"
)

// opError says what was being done when err came, and whether it was applied.
type opError struct {
	op      string
	err     error
	outcome cas.Outcome
}

func (e *opError) Error() string        { return "pgxfence: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error        { return e.err }
func (e *opError) Outcome() cas.Outcome { return e.outcome }

func notApplied(op string, err error) error { return &opError{op, err, cas.NotApplied} }

func uncertain(op string, err error) error {
	return &opError{op, fmt.Errorf("%w: %w", cas.ErrUncertain, err), cas.Uncertain}
}

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// refusedCommit reports whether err, in place of a COMMIT's result, proves that there was no commit.
func refusedCommit(err error) bool {
	if pgconn.SafeToRetry(err) { // nothing was sent
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && dialect.RefusedCommit(e.Code)
}

// refusedBefore reports whether err, in place of the result of a statement with a COMMIT pipelined
// behind it, proves that there was no commit. The server skips what follows an error, so its own
// error does. But an error that ends the session may be that of a pooler which has lost the server,
// after it had passed the COMMIT on.
func refusedBefore(err error) bool {
	if refusedCommit(err) {
		return true
	}
	if _, ok := errors.AsType[pgx.ErrPreprocessingBatch](err); ok { // the COMMIT was not even written down
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || isFatal(e) || len(e.Code) != 5 || e.Code == "40003" {
		return false
	}
	switch e.Code[:2] {
	case "08", "58", "XX": // connection, system, internal
		return false
	}
	return true
}

func isFatal(e *pgconn.PgError) bool {
	severity := e.SeverityUnlocalized
	if severity == "" {
		severity = e.Severity
	}
	return severity != "ERROR"
}
