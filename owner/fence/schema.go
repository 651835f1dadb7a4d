package fence

import (
	"context"
	"fmt"
	"strings"
)

// Schema is the fence's tables as SQL, for your migrations; on Postgres there are a sequence and a function
// besides. It changes no table that is there.
//
// Run it as the tables' owner. A service's role needs SELECT, INSERT and UPDATE on the tables; on Postgres besides SELECT
// and UPDATE on the sequence (USAGE is not enough), USAGE on the schema, and EXECUTE on the function, which everybody has
// unless you have revoked it.
func (f *SQL) Schema() string {
	return strings.Join(f.stmt.Create, ";\n") + ";\n"
}

// Install runs Schema, unless everything is there: then the database user needs no right to make
// it. Idempotent; any number of processes may call it at once.
func (f *SQL) Install(ctx context.Context) error {
	if _, err := f.facts(ctx); err != nil {
		return err
	}
	err := f.stmt.Install(
		func() error { return f.probe(ctx) },
		func(stmt string) error { _, err := f.db.ExecContext(ctx, stmt); return err },
	)
	if err != nil {
		return fmt.Errorf("fence: install table %q: %w", f.c.Table, err)
	}
	return nil
}

func (f *SQL) probe(ctx context.Context) error {
	for _, s := range f.stmt.Probe {
		rows, err := f.db.QueryContext(ctx, s)
		if err != nil {
			return err
		}
		rows.Next() // some drivers run the statement only now
		if err := rows.Close(); err != nil {
			return err
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}
