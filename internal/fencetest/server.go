// Package fencetest describes the databases that suites connect to.
package fencetest

import (
	"database/sql"
	"testing"

	"github.com/tenure-go/tenure/owner/fence"
)

// Server is a database under test.
type Server struct {
	Dialect fence.Dialect

	// Open returns a new pool of connections to one database, the same each time. The test closes it.
	Open func(t testing.TB) *sql.DB

	// Via returns a pool that connects to addr instead, where somebody forwards to Addr. nil if there
	// is no network to the database.
	Via  func(addr string) *sql.DB
	Addr string

	// Levels are the isolation levels that the driver takes, the default included.
	Levels []sql.IsolationLevel
}
