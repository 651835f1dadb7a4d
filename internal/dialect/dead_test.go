package dialect_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/tenure-go/tenure/internal/dialect"
)

func TestDead(t *testing.T) {
	for _, test := range []struct {
		d    dialect.Dialect
		err  error
		want bool
	}{
		{dialect.Postgres, driver.ErrBadConn, true},
		{dialect.Postgres, fmt.Errorf("a: %w", io.ErrUnexpectedEOF), true},
		{dialect.Postgres, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
		{dialect.Postgres, syscall.ECONNRESET, true},
		{dialect.Postgres, stateError("08006"), true},
		{dialect.Postgres, stateError("57P01"), true},
		{dialect.Postgres, stateError("57014"), false},
		{dialect.Postgres, stateError("40001"), false},
		{dialect.Postgres, context.DeadlineExceeded, false}, // it is a net.Error
		{dialect.Postgres, errors.New("EOF"), false},
		{dialect.Postgres, nil, false},
		{dialect.MySQL, &mysqlError{Number: 1927}, true},
		{dialect.MySQL, &mysqlError{Number: 1213}, false},
		{dialect.MySQL, io.EOF, true},
		{dialect.SQLite, codeError(10), false},
	} {
		if got := test.d.Dead(test.err); got != test.want {
			t.Errorf("%s: %v: got %t, want %t", test.d, test.err, got, test.want)
		}
	}
}

func TestAnswered(t *testing.T) {
	for _, test := range []struct {
		d    dialect.Dialect
		err  error
		want bool
	}{
		{dialect.Postgres, fmt.Errorf("a: %w", stateError("57P01")), true},
		{dialect.Postgres, errors.New("a commit came to be a rollback"), false},
		{dialect.MySQL, &mysqlError{Number: 1180}, true},
		{dialect.MySQL, io.EOF, false},
		{dialect.SQLite, codeError(10), true},
		{dialect.SQLite, io.EOF, false},
	} {
		if got := test.d.Answered(test.err); got != test.want {
			t.Errorf("%s: %v: got %t, want %t", test.d, test.err, got, test.want)
		}
	}
}
