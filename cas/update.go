package cas

import (
	"context"
	"encoding/json"
	"fmt"
)

// UpdateConfig tunes Update and UpdateAll. The zero value is ready to use.
type UpdateConfig struct {
	// Guards are checked in the same commit. One that does not hold ends the call at once.
	Guards []Cond

	// Receipt is an operation's id: at most 256 bytes, without "/". With it the operation happens
	// at most once, however often it is called and by whomever, and an uncertain outcome is
	// resolved. An id belongs to Update's key or UpdateAll's name: the same one elsewhere is
	// another operation. Make it with Dated if receipts are to be swept. See the package
	// documentation. Defaults to "": no receipt.
	Receipt string

	// Tries is how many times it is tried before ErrContended, or before the store's absence is
	// reported. Defaults to 10.
	Tries int

	// Observe is told what the call took, once, before it returns, in the caller's goroutine: for
	// metrics. It is not called if the function given to Update panics. Defaults to nobody.
	Observe func(Effort)
}

const defaultTries = 10

// Get reads key's value as JSON. An absent key is the zero T at revision 0, and no error.
func Get[T any](ctx context.Context, s KV, key string) (v T, rev int64, err error) {
	e, err := s.Get(ctx, key)
	if err != nil {
		return v, 0, fmt.Errorf("cas: get: %w", err)
	}
	v, err = decode[T](e)
	if err != nil {
		return v, 0, notApplied(fmt.Sprintf("cas: get %q", key), err)
	}
	return v, e.Rev, nil
}

// Update replaces key's value (JSON; the zero T if the key is absent) by what f makes of it,
// if nobody else changes the key meanwhile, and tries again if somebody does. It returns the
// value that is now stored. The first three retries start at once from what the conflict brought
// along, one round trip each; later ones wait at random, longer and longer, and read again. A key
// that is under a lease stays under it.
//
// Calls in one process for one key of one store go in turns, in the order in which they come, and each begins with what the
// one before has stored: so they are in nobody's way, and cost one round trip each (two with a Receipt, which is looked at
// first). That is for speed only: when one has had its turn for 250 ms, or a call has waited for 2 s or for half of the
// time to its deadline, it goes ahead.
//
// f runs in the caller's goroutine, possibly several times, each time on a fresh value, so it
// must have no side effect. Its error stops Update.
//
// Errors, by what they say of the outcome:
//   - not applied: f's error, wrapped; a *ConflictError with the failed guard's entry;
//     ErrContended; the context's error before or between tries; whatever the store refuses.
//   - uncertain: ErrUncertain, if a reply was lost and there is no Receipt, or if the store
//     could not be asked again before ctx ended or Tries were used up. Call Update again with
//     the same Receipt to find out. ErrReceiptExpired, if that comes too late.
//
// An error of f or of a guard is about this call. If an earlier one with the same Receipt
// ended in ErrUncertain, [Resolve] tells about that.
func Update[T any](ctx context.Context, s KV, key string, f func(v *T) error, c UpdateConfig) (T, error) {
	e := newEffort(s, key, c)
	u := update[T]{effort: e, key: key, f: f}
	v, err := result(e, u.v, u.make(ctx))
	e.end(err)
	return v, err
}

// update is the value that Update works on.
type update[T any] struct {
	effort *effort
	key    string
	f      func(*T) error
	known  bool
	entry  Entry
	v      T
	value  []byte // v as JSON
	place  *place
}

// make makes the effort when it is this call's turn.
func (u *update[T]) make(ctx context.Context) error {
	var stored Entry
	u.place = queue(u.effort.s, u.key)
	defer func() { u.place.leave(stored) }() // also if f panics
	if err := u.place.await(ctx); err != nil {
		return notApplied(u.effort.what, fmt.Errorf("%w while others of this process changed the key", err))
	}
	if u.effort.config.Receipt == "" {
		u.entry, u.known = u.place.known()
	}
	err := u.effort.make(ctx, u)
	if err == nil && !u.effort.stored {
		stored = Entry{Key: u.key, Value: u.value, Rev: u.effort.rev, Lease: u.entry.Lease}
	}
	return err
}

func (u *update[T]) see(c *ConflictError) { u.entry = find(c, u.key) }
func (u *update[T]) forget()              { u.known = false }

func (u *update[T]) draft(ctx context.Context) (Txn, error) {
	if !u.known {
		if err := u.read(ctx); err != nil {
			return Txn{}, err
		}
	}
	v, err := decode[T](u.entry)
	if err == nil {
		err = u.f(&v)
	}
	if err != nil {
		return Txn{}, notApplied(u.effort.what, err)
	}
	value, err := json.Marshal(v)
	if err != nil {
		return Txn{}, fmt.Errorf("the value does not write as JSON: %w", err)
	}
	u.v, u.value = v, value
	u.place.sending()
	return u.effort.txn([]Cond{AtRev(u.key, u.entry.Rev)}, []Op{PutLeased(u.key, value, u.entry.Lease)}, value)
}

func (u *update[T]) read(ctx context.Context) error {
	var err error
	if u.effort.receipt.key == "" {
		u.entry, err = u.effort.s.Get(ctx, u.key)
	} else {
		var now *ConflictError
		if now, err = u.effort.receipt.look(ctx, u.effort.s, u.key); err == nil {
			u.entry = find(now, u.key)
		}
	}
	if err != nil {
		return passing(err)
	}
	u.known = true
	return u.effort.news()
}

// find returns key's entry in c.
func find(c *ConflictError, key string) Entry {
	for _, e := range c.Current {
		if e.Key == key {
			return e
		}
	}
	return Entry{Key: key}
}

func decode[T any](e Entry) (v T, err error) {
	if e.Rev == 0 {
		return v, nil
	}
	if err := json.Unmarshal(e.Value, &v); err != nil {
		return v, fmt.Errorf("the value at revision %d does not read as %T: %w", e.Rev, v, err)
	}
	return v, nil
}
