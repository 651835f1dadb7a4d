package pgxfence_test

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence/pgxfence"
)

// A whole write in one round trip: two accounts, the guard and the commit.
func ExampleFence_Batch() {
	transfer := func(ctx context.Context, fences *pgxfence.Fence, t *owner.Tenure, from, to string, amount int64) (left int64, err error) {
		b := &pgx.Batch{}
		b.Queue("UPDATE account SET balance = balance - $2 WHERE id = $1 RETURNING balance", from, amount).
			QueryRow(func(row pgx.Row) error { return row.Scan(&left) })
		b.Queue("UPDATE account SET balance = balance + $2 WHERE id = $1", to, amount)
		// What must not be committed has to fail in the server: here CHECK (balance >= 0) does.
		return left, fences.Batch(ctx, t.Token(), b)
	}
	_ = transfer
}
