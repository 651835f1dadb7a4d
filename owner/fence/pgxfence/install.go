package pgxfence

import (
	"context"
	"fmt"
	"strings"
)

// Schema is the fence's tables, sequence and function as SQL, for your migrations; the same as fence.SQL's. It
// changes no table that is there. Run it as the tables' owner. A service's role needs SELECT, INSERT and UPDATE on the
// tables, SELECT and UPDATE on the sequence (USAGE is not enough), USAGE on the schema, and EXECUTE on the function, which
// everybody has unless you have revoked it.
func (f *Fence) Schema() string {
	return strings.Join(f.stmt.Create, ";\n") + ";\n"
}

// Install runs Schema, unless everything is there: then the database user needs no right to make
// it. Idempotent; any number of processes may call it at once.
func (f *Fence) Install(ctx context.Context) error {
	err := f.stmt.Install(
		func() error { return f.probe(ctx) },
		func(stmt string) error { _, err := f.pool.Exec(ctx, stmt); return err },
	)
	if err != nil {
		return fmt.Errorf("pgxfence: install table %q: %w", f.c.Table, err)
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
