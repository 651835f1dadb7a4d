package pgxfence

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

func checkStream(stream string) error {
	if stream == "" || len(stream) > dialect.MaxStream || !utf8.ValidString(stream) || strings.ContainsRune(stream, 0) {
		return refused("pgxfence: stream %q: want 1 to %d bytes of UTF-8 without NUL", stream, dialect.MaxStream)
	}
	return nil
}

func checkAdvance(tok shard.Token, stream string, next int64) error {
	if err := errors.Join(fence.CheckToken(tok), checkStream(stream)); err != nil {
		return err
	}
	if next < 0 {
		return refused("pgxfence: advance %q to %d: want an offset of at least 0", stream, next)
	}
	return nil
}

// Position is how far tok's shard has consumed stream: the next offset, or -1 if it never advanced.
// Call it after Seal: under any epoch but the sealed one it fails as a guard does, for an older
// owner could still move what was read. A stream's name has 1 to 200 bytes.
func (f *Fence) Position(ctx context.Context, tok shard.Token, stream string) (int64, error) {
	if err := errors.Join(fence.CheckToken(tok), checkStream(stream)); err != nil {
		return 0, err
	}
	r, err := f.state(ctx, tok, stream)
	if err != nil {
		return 0, notApplied("position", err)
	}
	if err := r.Refuse(tok); err != nil {
		return 0, err
	}
	return r.next, nil
}

// Advance stores in tx that tok's shard has consumed stream up to next, which is the offset to read
// next, at least 0. tx must be one of Tx, or be guarded before its commit; then position and effects
// are stored together, once, whatever is retried: *fence.PositionError if next is not above what is
// stored. On error return it, so that tx is rolled back.
func (f *Fence) Advance(ctx context.Context, tx pgx.Tx, tok shard.Token, stream string, next int64) error {
	if err := checkAdvance(tok, stream, next); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, f.stmt.AdvanceOrAdd, tok.Group, tok.Shard, stream, next)
	if err != nil {
		return notApplied("advance", err)
	}
	if tag.RowsAffected() == 1 {
		return nil
	}
	var stored int64
	if err := tx.QueryRow(ctx, f.stmt.Stored, tok.Group, tok.Shard, stream).Scan(&stored); err != nil {
		return notApplied("advance", err)
	}
	return &fence.PositionError{Stream: stream, Stored: stored, Next: next}
}

// QueueAdvance queues in b what Advance does, for a Batch of the same token: if next is not above what
// is stored, nothing of the batch is applied, and Batch returns *fence.PositionError. On error
// nothing was queued.
func (f *Fence) QueueAdvance(b *pgx.Batch, tok shard.Token, stream string, next int64) error {
	if err := checkAdvance(tok, stream, next); err != nil {
		return err
	}
	b.Queue(f.stmt.MustAdvance, tok.Group, tok.Shard, stream, next)
	return nil
}

// explainAdvance turns the error of a refused MustAdvance into what it means.
func (f *Fence) explainAdvance(ctx context.Context, tok shard.Token, args []any, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	stream, next := args[2].(string), args[3].(int64)
	r, err := f.state(ctx, tok, stream)
	if err != nil {
		return cause
	}
	if err := r.Refuse(tok); err != nil {
		return err
	}
	if r.next < next {
		return cause
	}
	return &fence.PositionError{Stream: stream, Stored: r.next, Next: next}
}
