package pgxfence

import (
	"context"
	"fmt"
	"strings"
)

// Schema is the fence's tables as SQL, for your migrations; the same as fence.SQL's. It changes no
// table that is there.
func (f *Fence) Schema() string {
	return strings.Join(f.stmt.Create, ";\n") + ";\n"
}

// Install runs Schema, unless the tables are there: then the database user needs no right to make
// them. Idempotent; any number of processes may call it at once.
func (f *Fence) Install(ctx context.Context) error {
	if f.probe(ctx) == nil {
		return nil
	}
	for _, s := range f.stmt.Create {
		if _, err := f.pool.Exec(ctx, s); err != nil {
			// IF NOT EXISTS fails in a race with another process that makes the table.
			if _, again := f.pool.Exec(ctx, s); again != nil {
				return fmt.Errorf("pgxfence: install: %w", err)
			}
		}
	}
	if err := f.probe(ctx); err != nil {
		return fmt.Errorf("pgxfence: install: table %q is there, but has other columns: %w", f.c.Table, err)
	}
	return nil
}

func (f *Fence) probe(ctx context.Context) error {
	for _, s := range f.stmt.Probe {
		if _, err := f.pool.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
