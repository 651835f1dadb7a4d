package main

import (
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
)

// change is what a client asks for.
type change struct {
	operation
	amount int64 // negative: a withdrawal
}

// operation names a change. Clients choose the id, and send it again with each retry. It is looked for among those of
// its account only, so that it never takes the database of another shard to find it.
type operation struct {
	account string
	id      string
}

// receipt is what became of a change.
type receipt struct {
	balance  int64 // just after it
	repeated bool  // it had been applied before
}

// most is the largest amount and balance: larger whole numbers are not safe in JSON, where many readers take them for
// floating point.
const most int64 = 1<<53 - 1

// refusal is a "no" that is the client's affair: nothing was written, and the same again gets the same answer.
type refusal struct {
	text   string
	status int        // over HTTP
	code   codes.Code // over gRPC
}

func (r *refusal) Error() string { return r.text }

// GRPCStatus is how gRPC finds it.
func (r *refusal) GRPCStatus() *status.Status { return status.New(r.code, r.text) }

// Outcome is NotApplied.
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

var (
	errPoor    = &refusal{"not enough in the account", http.StatusUnprocessableEntity, codes.FailedPrecondition}
	errRich    = &refusal{fmt.Sprintf("the balance would be above %d", most), http.StatusUnprocessableEntity, codes.OutOfRange}
	errReused  = &refusal{"this operation_id was used for another change of the account", http.StatusConflict, codes.AlreadyExists}
	errUnknown = &refusal{"no such account", http.StatusNotFound, codes.NotFound}
)

func invalid(format string, args ...any) error {
	return &refusal{fmt.Sprintf(format, args...), http.StatusBadRequest, codes.InvalidArgument}
}

// deposit and withdrawal check what came from a client.
func deposit(account, operationID string, amount int64) (change, error) {
	c := change{operation{account, operationID}, amount}
	if err := checkName("account_id", account); err != nil {
		return c, err
	}
	if err := checkName("operation_id", operationID); err != nil {
		return c, err
	}
	if amount <= 0 || amount > most {
		return c, invalid("amount is %d: want 1 to %d", amount, most)
	}
	return c, nil
}

func withdrawal(account, operationID string, amount int64) (change, error) {
	c, err := deposit(account, operationID, amount)
	c.amount = -c.amount
	return c, err
}

// longestName is enough for a UUID with a prefix.
const longestName = 100

// checkName keeps names to what needs no care in logs, paths and statements.
func checkName(field, name string) error {
	if name == "" || len(name) > longestName {
		return invalid("%s has %d bytes: want 1 to %d", field, len(name), longestName)
	}
	for _, b := range []byte(name) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '_', b == '.', b == ':':
		default:
			return invalid("%s may have letters, digits, and any of -_.:", field)
		}
	}
	return nil
}
