package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/shard"
)

// Seal raises the row to tok's epoch. On return no older owner's transaction can commit: those
// whose guard had passed have ended, and any later guard fails. State read from then on, in
// transactions begun after Seal returned, is current and stays so. (One transaction that seals and
// reads would read a snapshot from before it had waited.)
//
// Idempotent: after an error, uncertain ones included, call it again. *FencedError if a higher
// epoch is there, *GroupError if the row is another group's; then nothing has changed. It waits
// for transactions that have passed their guard and not ended yet, and gives up when ctx ends; by
// then older owners may be shut out already, never let in, and tok may yet become the sealed one.
func (f *SQL) Seal(ctx context.Context, tok shard.Token) error {
	if err := CheckToken(tok); err != nil {
		return err
	}
	if _, err := f.facts(ctx); err != nil {
		return err
	}
	if err := f.seal(ctx, tok); err != nil {
		return err
	}
	if err := f.renew(ctx); err != nil {
		return sealError(tok, err)
	}
	return nil
}

// seal makes tok the sealed one. The generation is not renewed yet.
func (f *SQL) seal(ctx context.Context, tok shard.Token) error {
	s, err := f.state(ctx, tok, "")
	if err != nil {
		return sealError(tok, err)
	}
	if err := s.refuse(tok); !errors.Is(err, ErrNotSealed) {
		return err // nil: sealed already
	}
	// Either row may be missing, if somebody has cleaned up by hand.
	n, err := f.raise(ctx, tok, s.groupID != "" && s.wanted > 0)
	if err != nil {
		return sealError(tok, err)
	}
	if n == 1 {
		return nil
	}
	if s, err = f.state(ctx, tok, ""); err != nil {
		return sealError(tok, err)
	}
	return s.refuse(tok)
}

// raise takes the two steps of a seal, and returns 1, or 0 if what the row says refuses it.
func (f *SQL) raise(ctx context.Context, tok shard.Token, found bool) (int64, error) {
	add := f.stmt.AddRows(tok.Group, tok.Shard, tok.GroupID)
	wanted, sealed := f.stmt.Raise(tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch))
	if f.d == dialect.SQLite {
		// One writer at a time: there are no overlapping guards to turn away, and each turn as the
		// writer has to be waited for.
		if found {
			add = nil
		}
		return f.update(ctx, append(append(add, wanted), sealed...)...)
	}
	if !found {
		_, err := f.update(ctx, add[0])
		if err == nil {
			_, err = f.update(ctx, add[1])
		}
		// Two that add one row can fail each other (a deadlock on MySQL), so what counts is the row.
		s, again := f.state(ctx, tok, "")
		switch {
		case again != nil:
			return 0, again
		case s.groupID == "" && err != nil:
			return 0, err
		case s.groupID == "":
			return 0, errors.New("the row that was added is not there: does this pool reach a replica?")
		}
		if err := s.refuse(tok); !errors.Is(err, ErrNotSealed) {
			return 0, nil // Seal says why
		}
	}
	if _, err := f.update(ctx, wanted); err != nil {
		return 0, err
	}
	if err := f.renew(ctx); err != nil {
		return 0, err
	}
	return f.update(ctx, sealed...)
}

func (f *SQL) renew(ctx context.Context) error {
	if f.d != dialect.Postgres {
		return nil
	}
	step := f.stmt.Renew()
	_, err := f.db.ExecContext(ctx, step.Stmt, step.Args...)
	return err
}

func sealError(tok shard.Token, err error) error {
	return fmt.Errorf("fence: seal %s: %w (if a part of its schema or a right is missing: see SQL.Schema, or call SQL.Install)", tok, err)
}

// SealAll seals every shard of group, those never sealed before included, above all epochs of
// lineages below lineage (1 to shard.MaxLineage). It is for after a Reset of the group, or when a
// lineage was raised and no member lives to seal. Rows that are above already stay as they are.
// Idempotent: after an error call it again.
func (f *SQL) SealAll(ctx context.Context, group string, lineage int) error {
	if !isPlain(group, dialect.MaxGroup) {
		return refused("fence: seal all: group %q: want 1 to %d letters, digits or any of ._-", group, dialect.MaxGroup)
	}
	if lineage < 1 || lineage > shard.MaxLineage {
		return refused("fence: seal all: lineage %d: want 1 to %d", lineage, shard.MaxLineage)
	}
	if _, err := f.facts(ctx); err != nil {
		return err
	}
	if err := f.sealAll(ctx, group, int64(lineage)<<48); err != nil {
		return fmt.Errorf("fence: seal all of %q: %w", group, err)
	}
	return nil
}

func (f *SQL) sealAll(ctx context.Context, group string, least int64) error {
	for _, steps := range f.stmt.RaiseAll(group, least) {
		if _, err := f.update(ctx, steps...); err != nil {
			return err
		}
		if err := f.renew(ctx); err != nil {
			return err
		}
	}
	for n, last := 1, -1; n > 0 && f.d == dialect.Postgres; {
		drain := f.stmt.Drain(group, last)
		if err := f.db.QueryRowContext(ctx, drain.Stmt, drain.Args...).Scan(&n, &last); err != nil {
			return err
		}
	}
	return nil
}

// update runs steps in a transaction of their own, and returns the number of rows that the last
// one changed. If that is none, nothing has changed.
//
// READ COMMITTED, because at a stricter level an update that has waited fails instead of looking
// again. Not in autocommit, which a session may have turned off. And, as in Tx, with SQLConfig.Idle: a process that is paused
// in here holds rows that the next seal needs.
func (f *SQL) update(ctx context.Context, steps ...dialect.Step) (n int64, err error) {
	opts := sql.TxOptions{Isolation: sql.LevelReadCommitted}
	if f.d == dialect.SQLite {
		opts.Isolation = sql.LevelDefault // drivers refuse others; it is serializable anyway
	}
	s, err := f.begin(ctx, &opts)
	if err != nil {
		return 0, err
	}
	defer s.end(ctx)
	for _, step := range steps {
		res, err := s.tx.ExecContext(ctx, step.Stmt, step.Args...)
		if err != nil {
			return 0, err
		}
		if n, err = res.RowsAffected(); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, nil
	}
	_, err = s.commit(ctx)
	return n, err
}
