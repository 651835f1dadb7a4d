package dialect_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tenure-go/tenure/internal/dialect"
)

// Errors as drivers have them.
type stateError string // pgx, lib/pq

func (e stateError) Error() string    { return "state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

type mysqlError struct { // go-sql-driver/mysql
	Number   uint16
	SQLState [5]byte
	Message  string
}

func (e *mysqlError) Error() string { return e.Message }

type codeError int // modernc.org/sqlite

func (e codeError) Error() string { return fmt.Sprintf("code %d", int(e)) }
func (e codeError) Code() int     { return int(e) }

type (
	errNo      int
	mattnError struct { // mattn/go-sqlite3, of which there are values and pointers
		Code         errNo
		ExtendedCode errNo
	}
)

func (e mattnError) Error() string { return "sqlite" }

type strangeError struct {
	Number string
	Code   string
}

func (e strangeError) Error() string { return "strange" }

type pointerError struct{ code int } // *pgconn.PgError, *sqlite.Error

func (e *pointerError) Error() string    { return fmt.Sprint(e.code) }
func (e *pointerError) SQLState() string { return fmt.Sprint(e.code) }
func (e *pointerError) Code() int        { return e.code }

// What ends a transaction by itself, and what says that there is none.
func TestEndOfATransaction(t *testing.T) {
	for _, test := range []struct {
		d               dialect.Dialect
		err             error
		rollsBack, none bool
	}{
		{dialect.Postgres, stateError("25P01"), false, true},
		{dialect.Postgres, stateError("25P02"), false, false},
		{dialect.Postgres, stateError("40001"), false, false}, // the failed transaction stays open
		{dialect.Postgres, context.Canceled, false, false},
		{dialect.MySQL, &mysqlError{Number: 1213}, true, false},
		{dialect.MySQL, fmt.Errorf("a: %w", &mysqlError{Number: 1205}), true, false},
		{dialect.MySQL, &mysqlError{Number: 1305}, false, false},
		{dialect.MySQL, context.Canceled, false, false}, // which closes the connection
		{dialect.SQLite, codeError(1), false, true},
		{dialect.SQLite, codeError(13), true, false},
		{dialect.SQLite, codeError(10 | 3<<8), true, false},
		{dialect.SQLite, codeError(19), false, false},
		{dialect.SQLite, context.DeadlineExceeded, true, false},
		{dialect.SQLite, errors.New("a"), false, false},
		{dialect.SQLite, nil, false, false},
	} {
		if got, none := test.d.RollsBack(test.err), test.d.NoTransaction(test.err); got != test.rollsBack || none != test.none {
			t.Errorf("%s: %v: got RollsBack %t and NoTransaction %t, want %t and %t", test.d, test.err, got, none, test.rollsBack, test.none)
		}
	}
}

func TestFaultOf(t *testing.T) {
	for _, test := range []struct {
		d    dialect.Dialect
		err  error
		want dialect.Fault
	}{
		{dialect.Postgres, stateError("40001"), dialect.Passing},
		{dialect.Postgres, stateError("40P01"), dialect.Passing},
		{dialect.Postgres, fmt.Errorf("a: %w", stateError("40001")), dialect.Passing},
		{dialect.Postgres, errors.Join(errors.New("a"), stateError("40001")), dialect.Passing},
		{dialect.Postgres, stateError("23505"), dialect.Duplicate},
		{dialect.Postgres, stateError("23503"), dialect.Refused},
		{dialect.Postgres, stateError("25P02"), dialect.Refused},
		{dialect.Postgres, stateError("P0001"), dialect.Refused},
		{dialect.Postgres, stateError("40003"), dialect.NoWord}, // statement completion unknown
		{dialect.Postgres, stateError("08007"), dialect.NoWord}, // transaction resolution unknown
		{dialect.Postgres, stateError("08006"), dialect.NoWord},
		{dialect.Postgres, stateError("57P01"), dialect.NoWord}, // shut down, perhaps after the commit
		{dialect.Postgres, stateError("57014"), dialect.NoWord}, // cancelled
		{dialect.Postgres, stateError("53100"), dialect.NoWord},
		{dialect.Postgres, stateError(""), dialect.NoWord},
		{dialect.Postgres, codeError(5), dialect.NoWord},
		{dialect.Postgres, &mysqlError{Number: 1213}, dialect.NoWord},
		{dialect.Postgres, errors.New("EOF"), dialect.NoWord},
		{dialect.Postgres, nil, dialect.NoWord},

		{dialect.MySQL, &mysqlError{Number: 1213, SQLState: [5]byte([]byte("40001"))}, dialect.Passing},
		{dialect.MySQL, &mysqlError{Number: 1205, SQLState: [5]byte([]byte("HY000"))}, dialect.Passing},
		{dialect.MySQL, &mysqlError{Number: 1020}, dialect.Passing},
		{dialect.MySQL, fmt.Errorf("a: %w", &mysqlError{Number: 1213}), dialect.Passing},
		{dialect.MySQL, &mysqlError{Number: 1062, SQLState: [5]byte([]byte("23000"))}, dialect.Duplicate},
		{dialect.MySQL, &mysqlError{Number: 1452, SQLState: [5]byte([]byte("23000"))}, dialect.Refused},
		{dialect.MySQL, &mysqlError{Number: 1644, SQLState: [5]byte([]byte("45000"))}, dialect.Refused},
		{dialect.MySQL, &mysqlError{Number: 1180, SQLState: [5]byte([]byte("HY000"))}, dialect.NoWord}, // error during commit
		{dialect.MySQL, &mysqlError{Number: 1053, SQLState: [5]byte([]byte("08S01"))}, dialect.NoWord},
		{dialect.MySQL, (*mysqlError)(nil), dialect.NoWord},
		{dialect.Postgres, (*pointerError)(nil), dialect.NoWord}, // its methods panic
		{dialect.SQLite, (*pointerError)(nil), dialect.NoWord},
		{dialect.Postgres, fmt.Errorf("a: %w", (*pointerError)(nil)), dialect.NoWord},
		{dialect.MySQL, strangeError{Number: "1213"}, dialect.NoWord},
		{dialect.MySQL, errors.New("Error 1213"), dialect.NoWord},

		{dialect.SQLite, codeError(5), dialect.Passing},
		{dialect.SQLite, codeError(5 | 2<<8), dialect.Passing}, // busy snapshot
		{dialect.SQLite, codeError(6), dialect.Passing},
		{dialect.SQLite, codeError(19), dialect.Refused},
		{dialect.SQLite, codeError(19 | 3<<8), dialect.Refused}, // foreign key
		{dialect.SQLite, codeError(2067), dialect.Duplicate},
		{dialect.SQLite, codeError(1555), dialect.Duplicate},
		{dialect.SQLite, codeError(13), dialect.Refused},
		{dialect.SQLite, codeError(10), dialect.NoWord}, // I/O error
		{dialect.SQLite, codeError(9), dialect.NoWord},  // interrupted
		{dialect.SQLite, codeError(1), dialect.NoWord},  // among others: no transaction is active
		{dialect.SQLite, mattnError{Code: 5}, dialect.Passing},
		{dialect.SQLite, &mattnError{Code: 19, ExtendedCode: 2067}, dialect.Duplicate},
		{dialect.SQLite, strangeError{Code: "5"}, dialect.NoWord},

		{0, stateError("40001"), dialect.NoWord},
	} {
		if got := test.d.FaultOf(test.err); got != test.want {
			t.Errorf("%s: %#v: got %d, want %d", test.d, test.err, got, test.want)
		}
	}
}
