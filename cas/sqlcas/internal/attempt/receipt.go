package attempt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Receipt is the row of one operation in the receipts' table. It is taken at the beginning of the
// operation's transaction, and held, by the table's unique key, until that ends. So there is at most
// one transaction of an operation at a time, and whoever takes the receipt knows that all before have
// ended, and how.
type Receipt struct {
	table Receipts
	pkg   string
	id    string
	dated bool
	began int64 // of a dated one: seconds since 1970
}

// States of a receipt. One that is aborted was written where nobody else held it: see Resolve.
const (
	stateApplied = "applied"
	stateAborted = "aborted"
	stateHorizon = "horizon" // of the row that is no receipt
)

// errVanished: between two statements the receipt was swept away. A fresh look will say more.
var errVanished = errors.New("the receipt was swept meanwhile")

// claim takes the receipt in q for the operation's effect. errSettled if it is applied.
func (r *Receipt) claim(ctx context.Context, q Querier) error {
	was, err := r.take(ctx, q, stateApplied)
	switch {
	case err != nil:
		return err
	case was == stateApplied:
		return errSettled
	}
	return nil
}

// take holds the receipt and writes state into it, unless it is applied, and returns what was there.
// It waits while another transaction holds it.
//
// The horizon is looked at after the row was inserted. If that succeeded because a sweep had deleted the
// row, then the horizon was raised before that, and this look finds it.
func (r *Receipt) take(ctx context.Context, q Querier, state string) (was string, err error) {
	now := time.Now().Unix()
	n, err := q.Exec(ctx, r.table.stmt.add, r.id, state, r.beganArg(), now)
	if err != nil {
		return "", err
	}
	if n == 0 {
		if was, err = r.table.read(ctx, q, r.id); err != nil {
			return "", err
		}
		switch was {
		case stateApplied:
			return was, nil
		case stateAborted:
		default:
			return "", &Error{
				r.pkg, fmt.Sprintf("receipt %q", r.id),
				fmt.Errorf("its state is %q, this version knows %q and %q", was, stateApplied, stateAborted), cas.Uncertain,
			}
		}
	}
	if r.dated {
		before, err := r.table.horizon(ctx, q)
		if err != nil {
			return "", err
		}
		if r.began < before {
			return was, r.expired(was, before)
		}
	}
	if was != "" && was != state {
		_, err = q.Exec(ctx, r.table.stmt.set, state, now, r.id)
	}
	return was, err
}

func (r *Receipt) beganArg() any {
	if r.dated {
		return r.began
	}
	return nil
}

// expired is why the operation can't be applied any more: receipts of its age may be gone. If this one is
// there, and is not applied, then it never was.
func (r *Receipt) expired(was string, before int64) error {
	err := fmt.Errorf("%w: it began at %s, and receipts before %s are gone", cas.ErrReceiptExpired,
		time.Unix(r.began, 0).UTC().Format(time.RFC3339), time.Unix(before, 0).UTC().Format(time.RFC3339))
	if was == stateAborted {
		return &Error{r.pkg, "the operation was aborted", err, cas.NotApplied}
	}
	return &Error{r.pkg, fmt.Sprintf("receipt %q", r.id), err, cas.Uncertain}
}

// Resolve settles what became of the operation, by holding its receipt, and writing it as aborted if it
// is not there.
func Resolve[S Session](ctx context.Context, c Config, r *Receipt, begin func(context.Context) (S, error)) (cas.Outcome, error) {
	var was string
	c.Idempotent = true
	err := Do(ctx, c, r.id, begin, nil, func(s S) (err error) {
		was, err = r.take(ctx, s, stateAborted)
		return err
	})
	if was == stateApplied && err == nil {
		return cas.Applied, nil
	}
	if err == nil || errors.Is(err, cas.ErrReceiptExpired) && was == stateAborted {
		return cas.NotApplied, nil
	}
	return cas.Uncertain, &Error{c.Package, fmt.Sprintf("resolve %q", r.id), err, cas.Uncertain}
}
