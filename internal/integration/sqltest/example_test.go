package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Two owners of one shard, the first of which does not know that it is replaced. In a service the token is
// Tenure.Token's; in a test a literal does.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "fence")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "example.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
	fmt.Println(err)
	_, err = db.ExecContext(ctx, "INSERT INTO account VALUES (17, 0)")
	fmt.Println(err)

	fences, err := fence.NewSQL(db, fence.SQLite, fence.SQLConfig{})
	fmt.Println(err)
	fmt.Println(fences.Install(ctx))
	at := func(revision int64) shard.Token {
		epoch, err := shard.NewEpoch(1, revision)
		if err != nil {
			fmt.Println(err)
		}
		return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: epoch}
	}
	deposit := func(tok shard.Token) error {
		return fences.Tx(ctx, tok, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 1 WHERE id = 17")
			return err
		})
	}

	fmt.Println("sealed:", fences.Seal(ctx, at(41)), "deposited:", deposit(at(41)))
	fmt.Println("sealed:", fences.Seal(ctx, at(57)), "deposited:", deposit(at(57)))
	err = deposit(at(41)) // a pause has ended
	if fenced, ok := errors.AsType[*fence.FencedError](err); ok {
		fmt.Println("stale:", fenced.Mine, "is behind", fenced.Current)
	}
	var balance int
	err = db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 17").Scan(&balance)
	fmt.Println("balance:", balance, err)
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil>
	// sealed: <nil> deposited: <nil>
	// sealed: <nil> deposited: <nil>
	// stale: 1:41 is behind 1:57
	// balance: 2 <nil>
}
