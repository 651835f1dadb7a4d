package dialect

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Dead reports whether err says that the connection to the database is gone, or was never made. Whether
// what was sent on it was done is another question: before a commit was sent, nothing was.
//
// Only that of the database can be meant: an io.EOF from elsewhere looks the same, so ask the connection
// as well where the error may be somebody's.
func (d Dialect) Dead(err error) bool {
	for _, dead := range []error{
		driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EPIPE,
	} {
		if errors.Is(err, dead) {
			return true
		}
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	switch d {
	case Postgres:
		switch state := stateOf(err); state {
		case "57P01", "57P02", "57P03": // shut down, crashed, starting up
			return true
		default:
			return strings.HasPrefix(state, "08")
		}
	case MySQL:
		switch n, _ := numberOf(err); n {
		case 1053, 1152, 1927, 2006, 2013, 4031: // shutdown, aborted, killed, gone, lost, idle for too long
			return true
		}
	}
	return false
}

// Answered reports whether err is the database's answer, of whatever kind, and not the driver's.
func (d Dialect) Answered(err error) bool {
	switch d {
	case MySQL:
		_, ok := numberOf(err)
		return ok
	case SQLite:
		_, ok := codeOf(err)
		return ok
	default:
		return stateOf(err) != ""
	}
}
