package cas

import (
	"context"
	"encoding/json"
	"fmt"
)

// Draft is one run of the function given to UpdateAll: what it reads, all as of one revision, and
// what it wants written. UpdateAll makes it, and it is of no use once that run has ended. Not safe
// for concurrent use. The zero value is invalid.
//
// An error of its methods, or of Read or Write, decides the run: return it. Nothing is committed
// then, whatever the function returns. Often UpdateAll runs the function again.
type Draft struct {
	ctx     context.Context // of UpdateAll: a draft lives within one call
	look    func(ctx context.Context, keys ...string) (*ConflictError, error)
	news    func() error
	known   map[string]Entry // of one revision, some from earlier runs
	touched []string         // what this run depends on, in its order
	read    map[string]Entry // those
	writes  []Op             // in the order of their keys' first write
	index   map[string]int   // in writes
	err     error            // the first: it decides
	over    bool
}

// Fetch reads keys in one round trip. To call it is never necessary: Read and Write fetch what is
// not there yet, one round trip each.
func (d *Draft) Fetch(keys ...string) error {
	if err := d.open(); err != nil {
		return err
	}
	var missing []string
	for _, key := range keys {
		if key == "" {
			return d.fail(fmt.Errorf("%w: empty key in a draft", ErrInvalid))
		}
		if _, ok := d.known[key]; !ok {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		if err := d.fetch(missing); err != nil {
			return d.fail(err)
		}
	}
	for _, key := range keys {
		if _, ok := d.read[key]; !ok {
			d.read[key] = d.known[key]
			d.touched = append(d.touched, key)
		}
	}
	return nil
}

// fetch reads keys along with what this run has read already. If one of those is not as it was, the
// run has seen values that never were there together, and has to begin anew.
func (d *Draft) fetch(keys []string) error {
	now, err := d.look(d.ctx, append(keys, d.touched...)...)
	if err != nil {
		return passing(err)
	}
	d.learn(now)
	if err := d.news(); err != nil {
		return err
	}
	for _, key := range d.touched {
		if d.known[key].Rev != d.read[key].Rev {
			return &retryError{err: fmt.Errorf("%w: %q changed while others were read", ErrContended, key)}
		}
	}
	return nil
}

// learn replaces what is known: what is not in c is of another revision.
func (d *Draft) learn(c *ConflictError) {
	clear(d.known)
	for _, e := range c.Current {
		d.known[e.Key] = e
	}
}

// Delete removes key when the draft is committed. Reading it afterwards gives the zero value.
func (d *Draft) Delete(key string) error {
	if err := d.Fetch(key); err != nil {
		return err
	}
	d.write(Delete(key))
	return nil
}

func (d *Draft) write(op Op) {
	if i, ok := d.index[op.Key]; ok {
		d.writes[i] = op
		return
	}
	d.index[op.Key] = len(d.writes)
	d.writes = append(d.writes, op)
}

func (d *Draft) open() error {
	if d.over {
		return fmt.Errorf("%w: draft used after its run has ended", ErrInvalid)
	}
	return d.err
}

func (d *Draft) fail(err error) error {
	d.err = err
	return err
}

// Read returns key's value (JSON; the zero T if the key is absent), or what was written to it in this
// draft.
func Read[T any](d *Draft, key string) (v T, err error) {
	if err := d.Fetch(key); err != nil {
		return v, err
	}
	e := d.read[key]
	if i, ok := d.index[key]; ok {
		if d.writes[i].Delete {
			return v, nil
		}
		e.Value, e.Rev = d.writes[i].Value, max(e.Rev, 1)
	}
	if v, err = decode[T](e); err != nil {
		return v, d.fail(fmt.Errorf("read %q: %w", key, err))
	}
	return v, nil
}

// Write stores v, as it is now, as key's value (JSON) when the draft is committed. A key that is under a
// lease stays under it.
func Write[T any](d *Draft, key string, v T) error {
	if err := d.Fetch(key); err != nil {
		return err
	}
	value, err := json.Marshal(v)
	if err != nil {
		return d.fail(fmt.Errorf("write %q: the value does not write as JSON: %w", key, err))
	}
	d.write(PutLeased(key, value, d.read[key].Lease))
	return nil
}
