package fence

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/shard"
)

func checkStream(stream string) error {
	if stream == "" || len(stream) > dialect.MaxStream || !utf8.ValidString(stream) || strings.ContainsRune(stream, 0) {
		return refused("fence: stream %q: want 1 to %d bytes of UTF-8 without NUL", stream, dialect.MaxStream)
	}
	return nil
}

// Position is how far tok's shard has consumed stream: the next offset, or -1 if it never advanced.
// Call it after Seal: under any epoch but the sealed one it fails as a guard does, for an older
// owner could still move what was read. A stream's name has 1 to 200 bytes.
func (f *SQL) Position(ctx context.Context, tok shard.Token, stream string) (int64, error) {
	if err := errors.Join(CheckToken(tok), checkStream(stream)); err != nil {
		return 0, err
	}
	s, err := f.state(ctx, tok, stream)
	if err != nil {
		return 0, notApplied("position", err)
	}
	if err := s.refuse(tok); err != nil {
		return 0, err
	}
	return s.next, nil
}

// Advance stores in tx that tok's shard has consumed stream up to next, which is the offset to read
// next, at least 0. tx must be one of Tx, or be guarded before its commit; then position and effects
// are stored together, once, whatever is retried: *PositionError if next is not above what is
// stored. On error return it, so that tx is rolled back.
func (f *SQL) Advance(ctx context.Context, tx *sql.Tx, tok shard.Token, stream string, next int64) error {
	if err := errors.Join(CheckToken(tok), checkStream(stream)); err != nil {
		return err
	}
	if next < 0 {
		return refused("fence: advance %q to %d: want an offset of at least 0", stream, next)
	}
	res, err := tx.ExecContext(ctx, f.stmt.Advance, next, tok.Group, tok.Shard, stream, next)
	if err != nil {
		return notApplied("advance", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return notApplied("advance", err)
	}
	if n == 1 {
		return nil
	}
	var stored int64
	err = tx.QueryRowContext(ctx, f.stmt.Stored, tok.Group, tok.Shard, stream).Scan(&stored)
	switch {
	case err == nil:
		return &PositionError{Stream: stream, Stored: stored, Next: next}
	case !errors.Is(err, sql.ErrNoRows):
		return notApplied("advance", err)
	}
	// A zombie that inserts the same row makes this fail, or wait and fail, rather than go unseen.
	if _, err := tx.ExecContext(ctx, f.stmt.AddStream, tok.Group, tok.Shard, stream, next); err != nil {
		return notApplied("advance", err)
	}
	return nil
}
