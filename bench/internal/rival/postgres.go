package rival

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenure-go/tenure/bench/internal/measure"
)

// OnPostgres is every contender whose effect is an UPDATE on Postgres.
func OnPostgres(p *Places, w Work) On {
	cs := []measure.Contender{
		pgContender(p, w, "plain UPDATE", "balance = balance + 1, one round trip", plainUpdate),
		pgContender(p, w, "SELECT FOR UPDATE", "begin, select for update, update, commit", forUpdate),
		pgContender(p, w, "CAS by version", "select, update where version = the one read, again at once on 0 rows", byVersion),
		pgContender(p, w, "SERIALIZABLE, retried", "select, update, commit; again at once on 40001", serializable),
		pgContender(p, w, "advisory lock", "begin, pg_advisory_xact_lock, update, commit", advisory),
		{Name: "plain UPDATE, pipelined", Note: "one connection, a commit each, all that wait sent together", Open: func(ctx context.Context) (*measure.Instance, error) {
			return pipelined(ctx, p, w)
		}},
	}
	cs = append(cs, lockContenders(p, w, pgEffect)...)
	return On{"Postgres", append(cs, tenureOnPostgres(p, w)...)}
}

func pgContender(p *Places, w Work, name, note string, how func(*pgTable) do) measure.Contender {
	return measure.Contender{Name: name, Note: note, Open: func(ctx context.Context) (*measure.Instance, error) {
		t, err := newPgTable(ctx, p, w.Accounts)
		if err != nil {
			return nil, err
		}
		return &measure.Instance{Do: how(t), Sum: t.sum, Close: t.drop}, nil
	}}
}

func plainUpdate(t *pgTable) do {
	return func(ctx context.Context, _, account int) error { return t.addOne(ctx, account) }
}

func forUpdate(t *pgTable) do {
	return func(ctx context.Context, _, account int) error {
		return pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
			var balance int64
			if err := tx.QueryRow(ctx, t.lock, account).Scan(&balance); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, t.set, account, balance+1)
			return err
		})
	}
}

func byVersion(t *pgTable) do {
	return func(ctx context.Context, _, account int) error {
		for {
			var balance, version int64
			if err := t.pool.QueryRow(ctx, t.read, account).Scan(&balance, &version); err != nil {
				return err
			}
			tag, err := t.pool.Exec(ctx, t.cas, account, balance+1, version)
			if err != nil || tag.RowsAffected() == 1 {
				return err
			}
		}
	}
}

func serializable(t *pgTable) do {
	return func(ctx context.Context, _, account int) error {
		for {
			err := pgx.BeginTxFunc(ctx, t.pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
				var balance, version int64
				if err := tx.QueryRow(ctx, t.read, account).Scan(&balance, &version); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, t.set, account, balance+1)
				return err
			})
			if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "40001" {
				continue
			}
			return err
		}
	}
}

func advisory(t *pgTable) do {
	return func(ctx context.Context, _, account int) error {
		return pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext($1), $2)", t.name, account); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, t.add, account, 1)
			return err
		})
	}
}
