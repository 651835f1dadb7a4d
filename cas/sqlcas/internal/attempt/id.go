package attempt

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenure-go/tenure/cas"
)

// maxID is in bytes, as in package cas.
const maxID = 256

// An id that cas.Dated made is "@", a date, "-" and a name.
const (
	datedMark   = "@"
	stampLayout = "20060102T150405Z"
	firstYear   = 2000
)

// horizonID is the id of the row that holds the horizon. No operation's is like it: one that begins
// with the mark goes on with a date.
const horizonID = datedMark + "horizon"

// Receipt returns the receipt of operation id. pkg begins its errors.
func (t Receipts) Receipt(pkg, id string) (*Receipt, error) {
	r := &Receipt{table: t, pkg: pkg, id: id}
	if id == "" || len(id) > maxID || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return nil, fmt.Errorf("%w: operation id %.80q: want 1 to %d bytes of UTF-8 without NUL", cas.ErrInvalid, id, maxID)
	}
	if !strings.HasPrefix(id, datedMark) {
		return r, nil
	}
	began, ok := dateOf(id)
	if !ok {
		return nil, fmt.Errorf("%w: operation id %.80q begins with %q like a dated one, and has no date since %d: make it with cas.Dated",
			cas.ErrInvalid, id, datedMark, firstYear)
	}
	r.dated, r.began = true, began.Unix()
	return r, nil
}

func dateOf(id string) (time.Time, bool) {
	stamp, _, ok := strings.Cut(strings.TrimPrefix(id, datedMark), "-")
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(stampLayout, stamp)
	return t, err == nil && t.Year() >= firstYear
}
