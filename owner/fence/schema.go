package fence

import (
	"context"
	"fmt"
	"strings"
)

// Schema is the fence's tables as SQL, for your migrations. It changes no table that is there.
func (f *SQL) Schema() string {
	return strings.Join(f.stmt.Create, ";\n") + ";\n"
}

// Install runs Schema, unless the tables are there: then the database user needs no right to make
// them. Idempotent; any number of processes may call it at once.
func (f *SQL) Install(ctx context.Context) error {
	if _, err := f.facts(ctx); err != nil {
		return err
	}
	if f.probe(ctx) == nil {
		return nil
	}
	for _, s := range f.stmt.Create {
		if _, err := f.db.ExecContext(ctx, s); err != nil {
			// On Postgres, IF NOT EXISTS fails in a race with another process that makes the table.
			if _, again := f.db.ExecContext(ctx, s); again != nil {
				return fmt.Errorf("fence: install: %w", err)
			}
		}
	}
	if err := f.probe(ctx); err != nil {
		return fmt.Errorf("fence: install: table %q is there, but has other columns: %w", f.c.Table, err)
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
