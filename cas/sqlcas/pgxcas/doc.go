// Package pgxcas is package sqlcas for pgx: rows with a version, whole transactions run again after a
// serialization failure or a deadlock, and lost commits decided by a receipt. Errors are those of sqlcas:
// sqlcas.ErrMissing, sqlcas.ErrExists, *sqlcas.ConflictError. The table of receipts is the same, so an
// operation that was begun by one can be retried or resolved by the other.
//
//	db, err := pgxcas.New(pool, pgxcas.Config{})
//	…
//	err = db.Once(ctx, "payment-4711", func(tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "UPDATE account SET balance = balance - 30 WHERE id = $1", id)
//		return err
//	})
//
// pgx knows more than database/sql does: whether a COMMIT was answered with ROLLBACK, because the function
// has swallowed an error, and whether anything was sent at all. Both are "not applied" here, and Uncertain is
// what is left.
package pgxcas
