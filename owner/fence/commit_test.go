package fence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tenure-go/tenure/internal/dialect"
)

type stateError string

func (e stateError) Error() string    { return "state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

type codeError int

func (e codeError) Error() string { return fmt.Sprintf("code %d", int(e)) }
func (e codeError) Code() int     { return int(e) }

// An error counts as a refusal only if it proves that nothing was committed.
func TestRefusedCommit(t *testing.T) {
	for _, test := range []struct {
		d    dialect.Dialect
		err  error
		want bool
	}{
		{dialect.Postgres, stateError("23503"), true},                           // deferred foreign key
		{dialect.Postgres, stateError("40001"), true},                           // serialization failure
		{dialect.Postgres, stateError("40P01"), true},                           // deadlock
		{dialect.Postgres, stateError("25P02"), true},                           // the transaction had failed
		{dialect.Postgres, stateError("P0001"), true},                           // a deferred trigger's RAISE
		{dialect.Postgres, fmt.Errorf("commit: %w", stateError("23505")), true}, // wrapped
		{dialect.Postgres, stateError("40003"), false},                          // statement completion unknown
		{dialect.Postgres, stateError("08006"), false},                          // connection failure, says a proxy
		{dialect.Postgres, stateError("57P01"), false},                          // shut down, perhaps after the commit
		{dialect.Postgres, stateError("57014"), false},                          // cancelled
		{dialect.Postgres, stateError("53100"), false},                          // disk full
		{dialect.Postgres, stateError("XX000"), false},
		{dialect.Postgres, stateError(""), false},
		{dialect.Postgres, codeError(5), false}, // no code of Postgres
		{dialect.Postgres, errors.New("EOF"), false},
		{dialect.MySQL, stateError("40001"), false}, // no driver has this method
		{dialect.MySQL, errors.New("EOF"), false},
		{dialect.SQLite, codeError(5), true},         // busy
		{dialect.SQLite, codeError(5 | 2<<8), true},  // busy snapshot
		{dialect.SQLite, codeError(19 | 3<<8), true}, // foreign key
		{dialect.SQLite, codeError(13), true},        // full
		{dialect.SQLite, codeError(10), false},       // I/O error
		{dialect.SQLite, codeError(9), false},        // interrupted
		{dialect.SQLite, errors.New("EOF"), false},
	} {
		if got := refusedCommit(test.d, test.err); got != test.want {
			t.Errorf("%s: %v: got %t, want %t", test.d, test.err, got, test.want)
		}
	}
}
