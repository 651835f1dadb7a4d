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

// ReceiptKey is the key of the receipt of operation id on key: ReceiptPrefix + key + "/" + id.
// Receipts under no lease stay until somebody deletes them. Their value is JSON:
//
//	{"format":1,"state":"applied","at":"2006-01-02T15:04:05Z","value":…}
//
// where state is "applied" or "aborted", at is the writer's wall clock, and value, of an
// applied one, is what Update stored (so a value may have half the size that the store
// takes). A receipt may be deleted once nobody will try its operation again and no request
// of an earlier try can still be under way: after hours, not seconds. A later try would apply
// the operation a second time.
func ReceiptKey(key, id string) string { return ReceiptPrefix + key + "/" + id }

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
// application as well as one whose fate is unknown. The zero value is no receipt: it holds
// no condition and is never applied.
type receipt struct {
	key   string
	entry Entry
}

func newReceipt(key, id string) (receipt, error) {
	if id == "" {
		return receipt{}, nil
	}
	if len(id) > maxReceipt || strings.Contains(id, "/") {
		return receipt{}, fmt.Errorf("%w: receipt %.80q has %d bytes, must have at most %d and no \"/\"", ErrInvalid, id, len(id), maxReceipt)
	}
	k := ReceiptKey(key, id)
	return receipt{key: k, entry: Entry{Key: k}}, nil
}

// read returns key's entry, and takes note of the receipt's, both of one revision and in one
// round trip: no key is ever at revision -1, so the transaction fails, and says what is there.
// A receipt read earlier than the value could miss a try whose effect the value shows.
func (r *receipt) read(ctx context.Context, s KV, key string) (Entry, error) {
	if r.key == "" {
		return s.Get(ctx, key)
	}
	never := Txn{If: []Cond{AtRev(key, -1), AtRev(r.key, -1)}}
	_, err := s.Commit(ctx, never)
	conflict := conflictOf(never, err)
	if conflict == nil {
		if err == nil {
			err = fmt.Errorf("%w: the store says that %q is at revision -1", ErrUnavailable, key)
		}
		return Entry{}, err
	}
	r.see(conflict)
	return find(conflict, key), nil
}

func (r *receipt) see(c *ConflictError) {
	if r.key != "" {
		r.entry = find(c, r.key)
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

// applied reports whether the receipt says so. One that can't be read counts, and result
// has the error.
func (r *receipt) applied() bool {
	if r.entry.Rev == 0 {
		return false
	}
	rec, err := r.record()
	return err != nil || rec.State == receiptApplied
}

// result returns what was stored, if the operation has been applied.
func result[T any](r *receipt) (v T, done bool, err error) {
	if !r.applied() {
		return v, false, nil
	}
	rec, err := r.record()
	if err != nil {
		return v, false, err
	}
	if err := json.Unmarshal(rec.Value, &v); err != nil {
		return v, false, fmt.Errorf("cas: the value in receipt %q does not read as %T: %w", r.key, v, err)
	}
	return v, true, nil
}

// txn stores v where entry was read, and the receipt along with it.
func (r *receipt) txn(entry Entry, v any, guards []Cond) (Txn, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return Txn{}, fmt.Errorf("the value does not write as JSON: %w", err)
	}
	t := Txn{
		If:   append([]Cond{AtRev(entry.Key, entry.Rev)}, guards...),
		Then: []Op{PutLeased(entry.Key, value, entry.Lease)},
	}
	if r.key == "" {
		return t, nil
	}
	put, err := r.put(receiptApplied, value)
	if err != nil {
		return Txn{}, err
	}
	t.If = append(t.If, AtRev(r.key, r.entry.Rev))
	t.Then = append(t.Then, put)
	return t, nil
}

func (r *receipt) put(state string, value json.RawMessage) (Op, error) {
	b, err := json.Marshal(receiptRecord{Format: receiptFormat, State: state, At: time.Now().UTC(), Value: value})
	return Put(r.key, b), err
}

// errAborted is why a try that was closed counts as not applied.
var errAborted = errors.New("a reply was lost, and the try was shut out by its receipt")

// close finds out what became of a try that left nobody wiser, by writing the receipt as
// aborted over what the try saw. If that succeeds the try can never be applied; if it
// conflicts, the receipt found says what has happened. It is asked again, some times, while
// its own outcome is in doubt. On error nothing is known, and the error says so.
func (r *receipt) close(ctx context.Context, s KV, tries int) error {
	for try := 1; ; try++ {
		put, err := r.put(receiptAborted, nil)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		txn := Txn{If: []Cond{AtRev(r.key, r.entry.Rev)}, Then: []Op{put}}
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
		if cause := wait(ctx, try); cause != nil {
			return fmt.Errorf("%w: %w, before the receipt could be asked: %w", ErrUncertain, cause, err)
		}
	}
}

// Resolve settles the outcome of an Update of key with the given receipt, for good: Applied,
// or NotApplied, and then no try that was sent before now will ever be applied. A later
// Update with the same receipt may still apply the operation. If the store could not be
// asked the outcome is Uncertain, and err says why; OutcomeOf(err) is Uncertain as well, for
// it is about the Update.
func Resolve(ctx context.Context, s KV, key, id string) (Outcome, error) {
	outcome, err := resolve(ctx, s, key, id)
	if err != nil {
		return Uncertain, &decidedError{fmt.Sprintf("cas: resolve %q", key), err, Uncertain}
	}
	return outcome, nil
}

func resolve(ctx context.Context, s KV, key, id string) (Outcome, error) {
	r, err := newReceipt(key, id)
	if err == nil && r.key == "" {
		err = fmt.Errorf("%w: no receipt given", ErrInvalid)
	}
	if err != nil {
		return Uncertain, err
	}
	// A try sees the receipt before it is sent, so it is at the latest what is read now.
	r.entry, err = s.Get(ctx, r.key)
	if err != nil {
		return Uncertain, err
	}
	if !r.applied() {
		if err := r.close(ctx, s, defaultTries); err != nil {
			return Uncertain, err
		}
	}
	if !r.applied() {
		return NotApplied, nil
	}
	if _, err := r.record(); err != nil {
		return Uncertain, err
	}
	return Applied, nil
}
