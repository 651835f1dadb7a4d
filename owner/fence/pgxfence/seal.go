package pgxfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Seal raises the row to tok's epoch. On return no older owner's transaction can commit: those
// whose guard had passed have ended, and any later guard fails. State read from then on, in
// transactions begun after Seal returned and on the primary, is current and stays so.
//
// Idempotent: after an error, uncertain ones included, call it again. *fence.FencedError if a higher
// epoch is there, *fence.GroupError if the row is another group's; then nothing has changed. It waits
// for transactions that have passed their guard and not ended yet (Config.Terminate ends them), and
// gives up when ctx ends; by then older owners may be shut out already, never let in, and tok may yet
// become the sealed one.
func (f *Fence) Seal(ctx context.Context, tok shard.Token) error {
	if err := fence.CheckToken(tok); err != nil {
		return err
	}
	r, err := f.state(ctx, tok, "")
	if err != nil {
		return sealError(tok, err)
	}
	if err := r.Refuse(tok); !errors.Is(err, fence.ErrNotSealed) {
		return f.again(ctx, tok, err)
	}
	// Either row may be missing, if somebody has cleaned up by hand.
	if r.GroupID == "" || r.wanted == 0 {
		if r, err = f.add(ctx, tok); err != nil {
			return sealError(tok, err)
		}
		if err := r.Refuse(tok); !errors.Is(err, fence.ErrNotSealed) {
			return f.again(ctx, tok, err)
		}
	}
	n, err := f.raise(ctx, tok)
	if err != nil {
		return sealError(tok, err)
	}
	if n == 1 {
		return nil
	}
	if r, err = f.state(ctx, tok, ""); err != nil {
		return sealError(tok, err)
	}
	return r.Refuse(tok)
}

// again ends the seal of a row that refuses tok with err. If that is nil it is sealed already, perhaps by a call that died before its Renew.
func (f *Fence) again(ctx context.Context, tok shard.Token, err error) error {
	if err != nil {
		return err
	}
	if err := f.renew(ctx); err != nil {
		return sealError(tok, err)
	}
	return nil
}

// add makes the rows of a shard that has none, and says what they are then.
func (f *Fence) add(ctx context.Context, tok shard.Token) (row, error) {
	_, err := f.update(ctx, f.stmt.AddRows(tok.Group, tok.Shard, tok.GroupID)...)
	if err != nil {
		return row{}, err
	}
	r, err := f.state(ctx, tok, "")
	if err == nil && r.GroupID == "" {
		err = errors.New("the row that was added is not there: does this pool reach a replica?")
	}
	return r, err
}

// raise takes the two steps of a seal, and returns 1, or 0 if what the row says refuses it.
func (f *Fence) raise(ctx context.Context, tok shard.Token) (int64, error) {
	wanted, sealed := f.stmt.Raise(tok.Group, tok.Shard, tok.GroupID, int64(tok.Epoch))
	if _, err := f.update(ctx, wanted); err != nil {
		return 0, err
	}
	if f.c.Terminate > 0 {
		if err := f.endOlder(ctx, tok); err != nil {
			return 0, err
		}
	}
	return f.update(ctx, sealed...)
}

func (f *Fence) renew(ctx context.Context) error {
	step := f.stmt.Renew()
	_, err := f.pool.Exec(ctx, step.Stmt, step.Args...)
	return err
}

func sealError(tok shard.Token, err error) error {
	return fmt.Errorf("pgxfence: seal %s: %w (if a part of its schema or a right is missing: see Fence.Schema, or call Fence.Install)", tok, err)
}

// SealAll seals every shard of group, those never sealed before included, above all epochs of
// lineages below lineage (1 to shard.MaxLineage). It is for after a Reset of the group, or when a
// lineage was raised and no member lives to seal. Rows that are above already stay as they are.
// Idempotent: after an error call it again.
func (f *Fence) SealAll(ctx context.Context, group string, lineage int) error {
	// A group is known by its tokens.
	if err := fence.CheckToken(shard.Token{Group: group, GroupID: "-", Epoch: 1}); err != nil {
		return refused("pgxfence: seal all: group %q: want the name of a group", group)
	}
	if lineage < 1 || lineage > shard.MaxLineage {
		return refused("pgxfence: seal all: lineage %d: want 1 to %d", lineage, shard.MaxLineage)
	}
	if err := f.sealAll(ctx, group, int64(lineage)<<48); err != nil {
		return fmt.Errorf("pgxfence: seal all of %q: %w", group, err)
	}
	return nil
}

func (f *Fence) sealAll(ctx context.Context, group string, least int64) error {
	for _, steps := range f.stmt.RaiseAll(group, least) {
		if _, err := f.update(ctx, steps...); err != nil {
			return err
		}
	}
	for n, last := 1, -1; n > 0; {
		drain := f.stmt.Drain(group, last)
		if err := f.pool.QueryRow(ctx, drain.Stmt, drain.Args...).Scan(&n, &last); err != nil {
			return err
		}
	}
	return nil
}

// update runs steps in a transaction of their own, and renews the generation behind it, in one round trip. It returns the number of rows
// that the last step changed.
//
// READ COMMITTED, because at a stricter level an update that has waited fails instead of looking again.
func (f *Fence) update(ctx context.Context, steps ...dialect.Step) (n int64, err error) {
	conn, err := f.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer f.release(ctx, conn)
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	for _, s := range steps {
		b.Queue(s.Stmt, s.Args...)
	}
	b.Queue("commit")
	renew := f.stmt.Renew()
	b.Queue(renew.Stmt, renew.Args...) // behind the transaction, not in it; skipped if the commit fails
	results := conn.SendBatch(ctx, b)
	for i := range b.Len() {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close() // says the same
			return 0, err
		}
		if i == len(steps) {
			n = tag.RowsAffected()
		}
	}
	return n, results.Close()
}
