package sqlcas_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/tenure-go/tenure/cas/sqlcas"
)

// A form that was filled in from version 1 is sent twice.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sqlcas")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "example.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE TABLE page (name TEXT PRIMARY KEY, body TEXT NOT NULL, version INTEGER NOT NULL)")
	fmt.Println(err)

	pages, err := sqlcas.NewTable(sqlcas.SQLite, "page", "version", "name")
	fmt.Println(err)
	key := sqlcas.Key{"home"}

	version, err := pages.Insert(ctx, db, key, sqlcas.Set{"body": "hello"})
	fmt.Println(version, err)
	_, err = pages.Insert(ctx, db, key, sqlcas.Set{"body": "hello"})
	fmt.Println(err)

	for _, body := range []string{"hello, world", "hello, you"} {
		next, err := pages.Update(ctx, db, key, version, sqlcas.Set{"body": body})
		if conflict, ok := errors.AsType[*sqlcas.ConflictError](err); ok {
			fmt.Println("somebody has changed it meanwhile: it is at", conflict.Current)
			continue
		}
		fmt.Println(next, err)
	}
	// Output:
	// <nil>
	// <nil>
	// 1 <nil>
	// sqlcas: the row exists: page [home], at version 1
	// 2 <nil>
	// somebody has changed it meanwhile: it is at 2
}
