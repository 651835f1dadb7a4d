package attempt

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// batch is how many receipts one transaction deletes: as many as package cas does. Locks are held
// briefly, and of those rows alone.
const batch = cas.MaxOps

// Sweep raises the horizon, and then deletes receipts from before it.
func Sweep[S Session](ctx context.Context, c Config, t Receipts, age time.Duration, begin func(context.Context) (S, error)) (deleted int, err error) {
	if age < time.Minute {
		return 0, &Error{c.Package, "sweep", fmt.Errorf("%w: age %v: must be at least a minute", cas.ErrInvalid, age), cas.NotApplied}
	}
	c.Observe, c.Idempotent = nil, true
	do := func(fn func(S) error) error { return Do(ctx, c, "", begin, nil, fn) }
	before := time.Now().Add(-age).UTC().Truncate(time.Minute).Unix()
	if err := do(func(s S) error {
		_, err := s.Exec(ctx, t.stmt.raise, before, before)
		return err
	}); err != nil {
		return 0, fmt.Errorf("%s: sweep: %w", c.Package, err)
	}
	for {
		var n, found int
		err := do(func(s S) error {
			// Another sweeper may have raised it further; this one must not go beyond what stands there.
			h, err := t.horizon(ctx, s)
			if err != nil {
				return err
			}
			ids, err := t.old(ctx, s, min(h, before))
			n, found = 0, len(ids)
			if err != nil || found == 0 {
				return err
			}
			deleted, err := s.Exec(ctx, t.stmt.remove+t.list(found), ids...)
			n = int(deleted)
			return err
		})
		if err != nil {
			return deleted, fmt.Errorf("%s: sweep: %w", c.Package, err)
		}
		deleted += n
		if found < batch {
			return deleted, nil
		}
	}
}

// old returns ids of receipts from before a time, the oldest first.
func (t Receipts) old(ctx context.Context, q Querier, before int64) (ids []any, err error) {
	err = q.Query(ctx, t.stmt.expired, []any{before, batch}, func(scan func(...any) error) error {
		var id string
		if err := scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
		return nil
	})
	return ids, err
}

func (t Receipts) list(n int) string {
	params := make([]string, n)
	for i := range params {
		params[i] = t.d.Param(i + 1)
	}
	return "(" + strings.Join(params, ", ") + ")"
}
