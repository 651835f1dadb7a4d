package cas

import (
	"context"
	"fmt"
)

// Resolve settles the outcome of an Update of key with the given receipt, or of an UpdateAll of
// that name, for good: Applied, or NotApplied, and then no try that was sent before this call will
// ever be applied. A later Update with the same receipt may still apply the operation.
//
// The outcome is Uncertain, and err says why, if the store could not be asked before ctx
// ended or within some ten tries: then all is as it was, and Resolve may be called again. If the
// store never comes back nobody can tell, for the answer lies there. It stays Uncertain, with
// ErrReceiptExpired, if the receipt was swept. OutcomeOf(err) is Uncertain as well, for it is
// about the Update.
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
	if err := ask(ctx, &r, s); err != nil {
		return Uncertain, err
	}
	if !r.applied() && r.expired() == nil {
		if err := r.close(ctx, s, defaultTries); err != nil {
			return Uncertain, err
		}
	}
	if r.applied() {
		if _, err := r.record(); err != nil {
			return Uncertain, err
		}
		return Applied, nil
	}
	if err := r.expired(); err != nil && OutcomeOf(err) != NotApplied {
		return Uncertain, err
	}
	return NotApplied, nil
}

// ask looks at the receipt, again if the store was away.
func ask(ctx context.Context, r *receipt, s KV) error {
	for try := 1; ; try++ {
		_, err := r.look(ctx, s)
		if err == nil {
			return nil
		}
		if _, again := passing(err).(*retryError); !again || try >= defaultTries {
			return err
		}
		if cause := wait(ctx, try, waitAway); cause != nil {
			return fmt.Errorf("%w after %w", cause, err)
		}
	}
}
