package main

import (
	"context"

	"github.com/tenure-go/tenure/owner"
)

// registers are a resource: it keeps numbers by name, and a row for each write that it has accepted. Safe for
// concurrent use. The zero value of a register is 0.
type registers interface {
	// load shuts older owners of t's shard out, and then reads all of its registers.
	load(ctx context.Context, t *owner.Tenure) (map[string]int64, error)

	// write sets r.Key to r.Value, whatever it was, and stores r, both or neither, if t still owns the shard.
	write(ctx context.Context, t *owner.Tenure, r row) error

	// confirm changes nothing and succeeds only if t still owns the shard.
	confirm(ctx context.Context, t *owner.Tenure) error

	// stale reports that err, of write or confirm, is the resource's refusal of an owner that was replaced.
	stale(err error) bool
}
