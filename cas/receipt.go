package cas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ReceiptPrefix is where receipts lie; see ReceiptKey.
const ReceiptPrefix = "/tenure-receipts/"

// ReceiptKey is the key of the receipt of operation id on key (of UpdateAll: its name):
//
//	/tenure-receipts/<key>/<id>
//	/tenure-receipts/@<date>/<key>/<id>    if Dated made the id
//
// A receipt is under no lease. Its value is JSON:
//
//	{"format":1,"state":"applied","at":"2006-01-02T15:04:05Z","value":…}
//
// where state is "applied" or "aborted", at is the writer's wall clock, and value, of an
// applied one, is what Update stored (so a value may have half the size that the store
// takes) or what UpdateAll's function returned.
//
// Sweep forgets dated receipts. Others stay until somebody deletes them, which may be done
// once nobody will try the operation again and no request of an earlier try can still be under
// way: after hours, not seconds. A later try would apply the operation a second time.
func ReceiptKey(key, id string) string {
	if stamp, ok := stampOf(id); ok {
		return datedPrefix + stamp + "/" + key + "/" + id
	}
	return ReceiptPrefix + key + "/" + id
}

const maxReceipt = 256 // bytes of an id

type receiptRecord struct {
	Format int             `json:"format"`
	State  string          `json:"state"`
	At     time.Time       `json:"at"`
	Value  json.RawMessage `json:"value,omitempty"`
}

const (
	receiptFormat  = 1
	receiptApplied = "applied"
	receiptAborted = "aborted"
)

// receipt is what is known of one operation's receipt. Every try commits on the condition
// that the receipt is as it was seen: absent, or aborted at some revision. So whatever
// changes the receipt shuts out, for good, every try that was sent before: a second
// application as well as one whose fate is unknown. That of a dated one also commits on the
// condition that the horizon is as it was seen. The zero value is no receipt: it holds no
// condition and is never applied.
type receipt struct {
	key     string
	entry   Entry
	dated   bool
	date    time.Time
	horizon Entry // of a dated one
}

func newReceipt(key, id string) (receipt, error) {
	if id == "" {
		return receipt{}, nil
	}
	if len(id) > maxReceipt || strings.Contains(id, "/") {
		return receipt{}, fmt.Errorf("%w: receipt %.80q has %d bytes, must have at most %d and no \"/\"", ErrInvalid, id, len(id), maxReceipt)
	}
	k := ReceiptKey(key, id)
	r := receipt{key: k, entry: Entry{Key: k}, horizon: Entry{Key: horizonKey}}
	if strings.HasPrefix(id, datedMark) {
		stamp, ok := stampOf(id)
		if !ok {
			return receipt{}, fmt.Errorf("%w: receipt %.80q begins with %q like a dated one, and has no date since %d: make it with Dated",
				ErrInvalid, id, datedMark, firstYear)
		}
		r.dated, r.date = true, stampTime(stamp)
	}
	return r, nil
}

// conds hold while nothing has changed since the receipt was seen.
func (r *receipt) conds() []Cond {
	switch {
	case r.key == "":
		return nil
	case !r.dated:
		return []Cond{AtRev(r.key, r.entry.Rev)}
	}
	return []Cond{AtRev(r.key, r.entry.Rev), AtRev(horizonKey, r.horizon.Rev)}
}

// look reads keys, and takes note of the receipt, all at one revision and in one round trip: no
// key is ever at revision -1, so the transaction fails, and says what is there. A receipt read
// earlier than a value could miss a try whose effect the value shows.
func (r *receipt) look(ctx context.Context, s KV, keys ...string) (*ConflictError, error) {
	never := Txn{}
	for _, key := range keys {
		never.If = append(never.If, AtRev(key, -1))
	}
	for _, c := range r.conds() {
		never.If = append(never.If, AtRev(c.Key, -1))
	}
	_, err := s.Commit(ctx, never)
	conflict := conflictOf(never, err)
	if conflict == nil {
		if err == nil {
			err = fmt.Errorf("%w: the store says that %q is at revision -1", ErrUnavailable, never.If[0].Key)
		}
		return nil, err
	}
	r.see(conflict)
	return conflict, nil
}

func (r *receipt) see(c *ConflictError) {
	if r.key != "" {
		r.entry = find(c, r.key)
	}
	if r.dated {
		r.horizon = find(c, horizonKey)
	}
}

func (r *receipt) record() (rec receiptRecord, err error) {
	if err := json.Unmarshal(r.entry.Value, &rec); err != nil {
		return rec, fmt.Errorf("cas: receipt %q at revision %d is unreadable: %w", r.key, r.entry.Rev, err)
	}
	if rec.Format != receiptFormat {
		return rec, fmt.Errorf("cas: receipt %q has format %d, this version reads %d", r.key, rec.Format, receiptFormat)
	}
	return rec, nil
}

// applied reports whether the receipt says so. One that can't be read counts, and record
// has the error.
func (r *receipt) applied() bool {
	if r.entry.Rev == 0 {
		return false
	}
	rec, err := r.record()
	return err != nil || rec.State == receiptApplied
}

// expired returns an error if the operation can't be applied any more, because receipts of its
// age may be gone. If this one is there, and is not applied, then it never was.
func (r *receipt) expired() error {
	if !r.dated {
		return nil
	}
	before, err := horizonOf(r.horizon)
	switch {
	case err != nil:
		return err
	case !r.date.Before(before):
		return nil
	}
	err = fmt.Errorf("%w: it began at %s, and receipts before %s are gone",
		ErrReceiptExpired, r.date.Format(time.RFC3339), before.Format(time.RFC3339))
	if r.entry.Rev != 0 {
		return notApplied("the operation was aborted", err)
	}
	return err
}

func (r *receipt) put(state string, value json.RawMessage) (Op, error) {
	b, err := json.Marshal(receiptRecord{Format: receiptFormat, State: state, At: time.Now().UTC(), Value: value})
	return Put(r.key, b), err
}

// errAborted is why a try that was closed counts as not applied.
var errAborted = errors.New("a reply was lost, and the try was shut out by its receipt")

// close finds out what became of a try that left nobody wiser, by writing the receipt as
// aborted over what the try saw. If that succeeds the try can never be applied; if it
// conflicts, what is found says what has happened, and whatever has changed has shut the try
// out as well. It is asked again, some times, while its own outcome is in doubt. On error
// nothing is known, and the error says so.
func (r *receipt) close(ctx context.Context, s KV, tries int) error {
	for try := 1; ; try++ {
		put, err := r.put(receiptAborted, nil)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		txn := Txn{If: r.conds(), Then: []Op{put}}
		rev, err := s.Commit(ctx, txn)
		if err == nil {
			r.entry = Entry{Key: r.key, Value: put.Value, Rev: rev, Created: rev}
			return nil
		}
		if conflict := conflictOf(txn, err); conflict != nil {
			r.see(conflict)
			return nil
		}
		if try >= tries {
			return fmt.Errorf("%w: the receipt could not be asked %d times: %w", ErrUncertain, try, err)
		}
		if cause := wait(ctx, try, waitAway); cause != nil {
			return fmt.Errorf("%w: %w, before the receipt could be asked: %w", ErrUncertain, cause, err)
		}
	}
}
