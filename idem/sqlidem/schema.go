package sqlidem

import (
	"context"
	"strings"
)

// Schema is the table as SQL, for your migrations. It changes none that is there.
func (s *Store) Schema() string { return strings.Join(s.stmt.Create, ";\n") + ";\n" }

// Install runs Schema, unless the table is there: then the database user needs no right to make it.
// Idempotent; any number of processes may call it at once.
func (s *Store) Install(ctx context.Context) error {
	if s.probe(ctx) == nil {
		return nil
	}
	for _, stmt := range s.stmt.Create {
		if _, err := s.db.ExecContext(ctx, stmt); err != nil {
			// On Postgres, IF NOT EXISTS fails in a race with another process that makes the table.
			if _, again := s.db.ExecContext(ctx, stmt); again != nil {
				return notApplied("install", err)
			}
		}
	}
	if err := s.probe(ctx); err != nil {
		return notApplied("install: table "+s.c.Table+" is there, but has other columns", err)
	}
	return nil
}

func (s *Store) probe(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, s.stmt.Probe)
	if err != nil {
		return err
	}
	rows.Next() // some drivers run the statement only now
	if err := rows.Close(); err != nil {
		return err
	}
	return rows.Err()
}

// purgeBatch is how many rows one commit of Purge changes: few enough that nobody waits for it.
const purgeBatch = 500

// Purge drops results whose replay has ended and deletes records whose tombstone has, in commits of 500
// rows, by indexes that make finding them cheap. It returns how many records were deleted. Call it
// now and then, say each hour, from one place or from several; without it all works the same, and the
// table grows. On an error, or when ctx ends, it stops; another call goes on from there.
func (s *Store) Purge(ctx context.Context) (deleted int, err error) {
	if _, err := s.sweep(ctx, s.stmt.Drop); err != nil {
		return 0, err
	}
	return s.sweep(ctx, s.stmt.Delete)
}

func (s *Store) sweep(ctx context.Context, stmt string) (total int, err error) {
	for {
		n, err := s.write(ctx, stmt, purgeBatch)
		total += int(n)
		if err != nil || n < purgeBatch {
			return total, err
		}
	}
}
