package dialect

import (
	"context"
	"errors"
	"reflect"
	"strings"
)

// Fault is what a database's error says of the statement or the commit that it answered.
type Fault uint8

const (
	// NoWord: nothing. The reply may be what was lost, or the error is of another origin.
	NoWord Fault = iota
	// Refused: the database says itself that it has not done it, nor will.
	Refused
	// Passing: refused because of what others did at the same time (serialization failure, deadlock, lock
	// wait). The whole transaction, run again, may pass.
	Passing
	// Duplicate: refused, for a unique key has that value already.
	Duplicate
)

// FaultOf finds what err, of a statement or a commit, says. No driver is imported for it. It goes
// by what drivers' errors have in common, through wrapping:
//
//   - Postgres: SQLState() string, of pgx and lib/pq.
//   - MySQL: the fields Number and SQLState of go-sql-driver/mysql's error, which has no method for them.
//   - SQLite: Code() int, of modernc.org/sqlite, or mattn/go-sqlite3's fields Code and ExtendedCode.
//
// An error in which none of these is found, and a code that does not prove a refusal, is NoWord.
func (d Dialect) FaultOf(err error) Fault {
	switch d {
	case Postgres:
		return stateFault(stateOf(err))
	case MySQL:
		if n, ok := numberOf(err); ok {
			switch n {
			case 1205, // lock wait timeout: the statement, or by configuration the transaction, was rolled back
				1213, // deadlock: the transaction was
				1020: // MariaDB: the row has changed since the transaction's snapshot
				return Passing
			case 1062, 1586:
				return Duplicate
			}
		}
		return stateFault(stateOf(err))
	case SQLite:
		return codeFault(err)
	}
	return NoWord
}

// RollsBack reports whether err is of a kind with which the database has rolled back the whole transaction by itself,
// so that there is none left. On Postgres a failed transaction stays open until somebody ends it.
func (d Dialect) RollsBack(err error) bool {
	switch d {
	case MySQL:
		return d.FaultOf(err) == Passing
	case SQLite:
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return true // a write that is interrupted takes its transaction along
		}
		switch code, _ := codeOf(err); code & 0xff {
		case 5, 7, 9, 10, 13: // BUSY, NOMEM, INTERRUPT, IOERR, FULL
			return true
		}
	}
	return false
}

// NoTransaction reports whether err, of a statement that works only in a transaction, says that there is none: SAVEPOINT on
// Postgres, ROLLBACK on SQLite.
func (d Dialect) NoTransaction(err error) bool {
	switch d {
	case Postgres:
		return stateOf(err) == "25P01"
	case SQLite:
		code, ok := codeOf(err)
		return ok && code&0xff == 1
	}
	return false
}

// stateFault reads an SQLSTATE. A class is a refusal if it is sent instead of a commit. Others do not prove
// that: a server that is shut down while it waits for its standby has committed already (57P01), a
// proxy that lost its server says 08006, and 40003 and 08007 say themselves that they do not know.
func stateFault(state string) Fault {
	switch state {
	case "40001", "40P01": // serialization failure, deadlock
		return Passing
	case "40003": // statement completion unknown
		return NoWord
	case "23505":
		return Duplicate
	}
	// In order: cardinality, data, integrity, transaction state, triggered data change, rollback, access rule,
	// check option, raised by a routine of MySQL's, or of Postgres's.
	for _, class := range []string{"21", "22", "23", "25", "27", "40", "42", "44", "45", "P0"} {
		if strings.HasPrefix(state, class) {
			return Refused
		}
	}
	return NoWord
}

// SQLite is in this process and nothing gets lost between, but an I/O error says little.
func codeFault(err error) Fault {
	code, ok := codeOf(err)
	if !ok {
		return NoWord
	}
	switch code & 0xff { // without the extended part
	case 5, 6: // SQLITE_BUSY with BUSY_SNAPSHOT, SQLITE_LOCKED
		return Passing
	case 13: // SQLITE_FULL
		return Refused
	case 19: // SQLITE_CONSTRAINT
		switch code {
		case 1555, 2067, 2579: // PRIMARYKEY, UNIQUE, ROWID
			return Duplicate
		}
		return Refused
	}
	return NoWord
}

// stateOf returns the SQLSTATE that err carries, or "".
func stateOf(err error) (state string) {
	walk(err, func(err error) bool {
		if e, ok := err.(interface{ SQLState() string }); ok {
			state = e.SQLState()
			return true
		}
		if f := field(err, "SQLState"); f.IsValid() && f.Type() == reflect.TypeFor[[5]byte]() {
			b := [5]byte(f.Interface().([5]byte))
			state = strings.TrimRight(string(b[:]), "\x00")
		}
		return state != ""
	})
	return state
}

// numberOf returns the number of a MySQL error.
func numberOf(err error) (n int64, ok bool) {
	walk(err, func(err error) bool {
		n, ok = integer(field(err, "Number"))
		return ok
	})
	return n, ok
}

// codeOf returns the result code of an SQLite error, with the extended part if it is there.
func codeOf(err error) (n int64, ok bool) {
	walk(err, func(err error) bool {
		if e, is := err.(interface{ Code() int }); is {
			n, ok = int64(e.Code()), true
			return true
		}
		if n, ok = integer(field(err, "Code")); !ok {
			return false
		}
		if more, has := integer(field(err, "ExtendedCode")); has && more != 0 {
			n = more
		}
		return true
	})
	return n, ok
}

// walk visits err and all that it wraps, until visit says that it has found what it wants.
func walk(err error, visit func(error) bool) bool {
	if err == nil {
		return false
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
		return false // of a function that returns its nil *PgError as an error
	}
	if visit(err) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if walk(err, visit) {
				return true
			}
		}
	}
	return false
}

// field returns an exported field of the struct that err is, or points to.
func field(err error, name string) reflect.Value {
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	if f, ok := v.Type().FieldByName(name); !ok || !f.IsExported() || len(f.Index) != 1 {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

func integer(v reflect.Value) (int64, bool) {
	switch {
	case !v.IsValid():
		return 0, false
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), true
	}
	return 0, false
}
