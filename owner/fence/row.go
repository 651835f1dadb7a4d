package fence

import (
	"context"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/shard"
)

// row is what the database knows of one shard. Zero values stand for what is not there.
type row struct {
	groupID string      // "" if the shard was never sealed
	epoch   shard.Epoch // sealed; guards must equal it
	wanted  shard.Epoch // somebody is sealing it, or has
	floor   shard.Epoch // SealAll's
	next    int64       // the position of the stream that was asked for, or -1
}

// state reads tok's row, in no transaction, and in one statement, so that its parts fit together.
// The stream may be "".
func (f *SQL) state(ctx context.Context, tok shard.Token, stream string) (s row, err error) {
	err = f.db.QueryRowContext(ctx, f.stmt.State, dialect.StateArgs(tok.Group, tok.Shard, stream)...).
		Scan(&s.groupID, &s.epoch, &s.wanted, &s.floor, &s.next)
	return s, err
}

// refuse says why a guard under tok fails on s: nil if it would not.
func (s row) refuse(tok shard.Token) error {
	return State{GroupID: s.groupID, Epoch: s.epoch, Wanted: max(s.wanted, s.floor)}.Refuse(tok)
}
