package pgxfence

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// txState is shared by a transaction and the savepoints in it.
type txState struct {
	over bool // Tx has returned: whoever has kept the transaction must not use the connection
	ends bool // fn tried to end it
}

// guardedTx is the transaction that fn gets. Only Tx ends it, since the guard has to go with the commit.
type guardedTx struct {
	pgx.Tx
	state     *txState
	savepoint bool // Tx is a savepoint's, which fn may end
}

func (t *guardedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if t.state.over {
		return nil, pgx.ErrTxClosed
	}
	tx, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &guardedTx{Tx: tx, state: t.state, savepoint: true}, nil
}

func (t *guardedTx) Commit(ctx context.Context) error {
	return t.end(func() error { return t.Tx.Commit(ctx) })
}

func (t *guardedTx) Rollback(ctx context.Context) error {
	return t.end(func() error { return t.Tx.Rollback(ctx) })
}

func (t *guardedTx) end(end func() error) error {
	switch {
	case t.state.over:
		return pgx.ErrTxClosed
	case t.savepoint:
		return end()
	}
	t.state.ends = true
	return notApplied(opFn, errEnds)
}

func (t *guardedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if t.state.over {
		return 0, pgx.ErrTxClosed
	}
	return t.Tx.CopyFrom(ctx, table, columns, rows)
}

func (t *guardedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if t.state.over {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	return t.Tx.SendBatch(ctx, b)
}

func (t *guardedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if t.state.over {
		return nil, pgx.ErrTxClosed
	}
	return t.Tx.Prepare(ctx, name, sql)
}

func (t *guardedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.state.over {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return t.Tx.Exec(ctx, sql, args...)
}

func (t *guardedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if t.state.over {
		return pgx.FailedBatchResults(&pgx.Batch{}, pgx.ErrTxClosed).Query()
	}
	return t.Tx.Query(ctx, sql, args...)
}

func (t *guardedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if t.state.over {
		return pgx.FailedBatchResults(&pgx.Batch{}, pgx.ErrTxClosed).QueryRow()
	}
	return t.Tx.QueryRow(ctx, sql, args...)
}
