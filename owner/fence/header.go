package fence

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/shard"
)

// header holds a token as group/groupid/shard/epoch. One header, so that no half of it can be
// replaced; the epoch is a decimal number in text, which no reader must take for a float.
const header = "Tenure-Token"

// SetHeader and FromHeader carry a token between processes, to a server that has a Gate. SetHeader
// replaces a token that is there; the zero Token removes it. Trust only peers that you
// authenticate: whoever can make up a token can fence the owner.
func SetHeader(h http.Header, tok shard.Token) {
	if tok.IsZero() {
		h.Del(header)
		return
	}
	h.Set(header, strings.Join([]string{
		tok.Group, tok.GroupID, strconv.Itoa(tok.Shard), strconv.FormatInt(int64(tok.Epoch), 10),
	}, "/"))
}

// FromHeader returns the token that SetHeader wrote. Anything else, or none, or more than one, is ErrToken.
func FromHeader(h http.Header) (shard.Token, error) {
	values := h.Values(header)
	if len(values) != 1 {
		return shard.Token{}, fmt.Errorf("%w: %d %s headers, want one", ErrToken, len(values), header)
	}
	parts := strings.Split(values[0], "/")
	if len(parts) != 4 {
		return shard.Token{}, badHeader(values[0])
	}
	// What is not written as SetHeader writes it (+1, 007) is somebody else's.
	n, err := strconv.Atoi(parts[2])
	if err != nil || strconv.Itoa(n) != parts[2] {
		return shard.Token{}, badHeader(values[0])
	}
	epoch, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || strconv.FormatInt(epoch, 10) != parts[3] {
		return shard.Token{}, badHeader(values[0])
	}
	tok := shard.Token{Group: parts[0], GroupID: parts[1], Shard: n, Epoch: shard.Epoch(epoch)}
	if err := CheckToken(tok); err != nil {
		return shard.Token{}, err
	}
	return tok, nil
}

func badHeader(value string) error {
	const most = 200 // of what a peer sent, in an error or a log
	if len(value) > most {
		value = value[:most] + "…"
	}
	return fmt.Errorf("%w: %s: %q, want group/groupid/shard/epoch", ErrToken, header, value)
}
