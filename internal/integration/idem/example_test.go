package idem

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/sqlidem"
)

// A payment: a charge at a third party, then a line in the ledger. The job dies after the charge and is
// delivered again; later it is delivered a third time. It is charged once and booked once.
func Example_stepTx() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // in memory, each connection has a database of its own
	store, err := sqlidem.New(db, sqlidem.SQLite, sqlidem.Config{})
	if err == nil {
		err = store.Install(ctx)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE ledger (payment TEXT, charge TEXT)")
	}
	if err != nil {
		panic(err)
	}
	engine, err := idem.New(store, idem.Config{})
	if err != nil {
		panic(err)
	}

	deliver := func(dies bool) (charge string, err error) {
		defer func() {
			if died := recover(); died != nil {
				err = errors.New(fmt.Sprint(died))
			}
		}()
		req := idem.Request{Scope: "tenant-7", Key: "payment-17"}
		return idem.Do(ctx, engine, req, func(ctx context.Context, op *idem.Op) (string, error) {
			charge, err := idem.Step(ctx, op, "charge", func(_ context.Context, key string) (string, error) {
				fmt.Println("charging")
				return "ch_1", nil
			})
			if err != nil {
				return "", err
			}
			if dies {
				panic("killed after the charge")
			}
			return sqlidem.StepTx(ctx, op, "book", func(tx *sql.Tx) (string, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?)", "payment-17", charge)
				return charge, err
			}, sqlidem.Last)
		})
	}
	fmt.Println(deliver(true))
	fmt.Println(deliver(false))
	fmt.Println(deliver(false))
	var lines int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM ledger").Scan(&lines); err != nil {
		panic(err)
	}
	fmt.Println("lines in the ledger:", lines)
	// Output:
	// charging
	//  killed after the charge
	// ch_1 <nil>
	// ch_1 <nil>
	// lines in the ledger: 1
}
