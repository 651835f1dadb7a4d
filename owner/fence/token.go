package fence

import (
	"fmt"

	"github.com/tenure-go/tenure/internal/dialect"
	"github.com/tenure-go/tenure/shard"
)

const maxShard = 1<<16 - 1

// CheckToken refuses what no tenure's token can be: its error wraps ErrToken. Guards compare for
// equality, so a bad token could not pass anyway; but Seal would store it. It is for those who write a
// fence of their own, with State.
func CheckToken(tok shard.Token) error {
	switch {
	case tok == shard.Token{}:
		return fmt.Errorf("%w: it is the zero Token; take it from Tenure.Token", ErrToken)
	case !isPlain(tok.Group, dialect.MaxGroup):
		return fmt.Errorf("%w: group %q: want 1 to %d letters, digits or any of ._-", ErrToken, tok.Group, dialect.MaxGroup)
	case !isPlain(tok.GroupID, dialect.MaxGroupID):
		return fmt.Errorf("%w: group id %q: want 1 to %d letters, digits or any of ._-", ErrToken, tok.GroupID, dialect.MaxGroupID)
	case tok.Shard < 0 || tok.Shard > maxShard:
		return fmt.Errorf("%w: shard %d: want 0 to %d", ErrToken, tok.Shard, maxShard)
	case tok.Epoch <= 0 || tok.Epoch.Revision() == 0:
		return fmt.Errorf("%w: epoch %d: want a lineage of 0 or more and a revision of 1 or more", ErrToken, int64(tok.Epoch))
	}
	return nil
}

// isPlain reports whether s has 1 to limit characters, each of them safe in a header, in a column
// of ASCII text, and under every collation.
func isPlain(s string, limit int) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= limit
}
