package main

import (
	"context"

	"github.com/tenure-go/tenure/shard"
)

// vault is the database: accounts, the operations that changed them, and the fence. Safe for concurrent use.
//
// Operations are kept for ever here. A service that can't afford that deletes what is older than any client's last
// retry, by a job that needs no owner: nothing but a retry ever asks for them.
type vault interface {
	// install creates what is missing.
	install(ctx context.Context) error

	// seal shuts out all owners of the shard before tok's.
	seal(ctx context.Context, tok shard.Token) error

	// read looks for accounts and operations. What is not there is in neither map.
	read(ctx context.Context, accounts []string, ops []operation) (map[string]int64, map[operation]entry, error)

	// write stores all of it or nothing, and nothing if tok is not what was sealed last. Its error's outcome is
	// what cas.OutcomeOf says.
	write(ctx context.Context, tok shard.Token, balances map[string]int64, entries []entry) error

	close() error
}

// entry is an operation as it was applied.
type entry struct {
	operation
	amount  int64
	balance int64 // just after it
}
