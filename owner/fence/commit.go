package fence

import (
	"errors"

	"github.com/tenure-go/tenure/internal/dialect"
)

// refusedCommit reports whether err, of a commit, is the database's own word that it did not
// commit. No driver is imported here, so it goes by methods that drivers' errors have:
//
//   - SQLState() string, of pgx and lib/pq. A reply that names a constraint, a serialization
//     failure or bad data was sent instead of a commit. Other classes do not prove that: a server
//     that is shut down while it waits for its standby has committed already (57P01), a proxy that
//     lost its server says 08006, and 40003 says itself that it does not know.
//   - Code() int, of modernc.org/sqlite. SQLite is in this process and nothing gets lost between;
//     busy, locked, full and constraint are refusals. An I/O error is not.
//
// go-sql-driver/mysql has neither; but what a transaction can be refused for on MySQL is refused
// at the statement, not at the commit.
func refusedCommit(d dialect.Dialect, err error) bool {
	switch d {
	case dialect.Postgres:
		var e interface{ SQLState() string }
		return errors.As(err, &e) && dialect.RefusedCommit(e.SQLState())
	case dialect.SQLite:
		var e interface{ Code() int }
		return errors.As(err, &e) && refusedCode(e.Code())
	}
	return false
}

func refusedCode(code int) bool {
	switch code & 0xff { // without the extended part
	case 5, 6, 13, 19: // SQLITE_BUSY, LOCKED, FULL, CONSTRAINT
		return true
	}
	return false
}
