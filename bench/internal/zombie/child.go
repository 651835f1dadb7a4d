package zombie

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/bench/internal/servers"
)

// spec is what a child is told.
type spec struct {
	Kind      string
	Name      string // of the balance, and of the lock
	Run       string // what names on a broker begin with
	Addresses servers.Addresses
	SQLite    string // file
}

// holder is a contender in a child process. Its methods are called one at a time.
type holder interface {
	// acquire blocks until the account is held, and returns the balance read then.
	acquire(ctx context.Context) (int64, error)
	// write stores the balance, as a holder does.
	write(ctx context.Context, balance int64) error
	// release gives up the hold in good order.
	release(ctx context.Context) error
}

// Child runs the holder that specification describes, and obeys the commands that come in: acquire, write N, release.
// Each is answered by one line.
func Child(ctx context.Context, specification string, in io.Reader, out io.Writer) error {
	var s spec
	if err := json.Unmarshal([]byte(specification), &s); err != nil {
		return fmt.Errorf("zombie: specification: %w", err)
	}
	h, err := open(ctx, s)
	if err != nil {
		return fmt.Errorf("zombie: open %s: %w", s.Kind, err)
	}
	fmt.Fprintln(out, "open")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, argument, _ := strings.Cut(lines.Text(), " ")
		reply, err := "ok", error(nil)
		switch verb {
		case "acquire":
			var balance int64
			balance, err = h.acquire(ctx)
			reply = strconv.FormatInt(balance, 10)
		case "write":
			balance, _ := strconv.ParseInt(argument, 10, 64)
			err = h.write(ctx, balance)
		case "release":
			err = h.release(ctx)
		}
		if err != nil {
			reply = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(out, reply)
	}
	return nil
}
