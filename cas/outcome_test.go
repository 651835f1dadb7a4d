package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/cas"
)

func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want cas.Outcome
	}{
		{nil, cas.Applied},
		{errors.New("foreign"), cas.Uncertain},
		{context.DeadlineExceeded, cas.Uncertain},
		{cas.ErrUncertain, cas.Uncertain},
		{cas.ErrLeaseNotFound, cas.NotApplied},
		{cas.ErrCompacted, cas.NotApplied},
		{cas.ErrFutureRev, cas.NotApplied},
		{cas.ErrNoLeader, cas.NotApplied},
		{cas.ErrNoSpace, cas.NotApplied},
		{cas.ErrUnavailable, cas.NotApplied},
		{cas.ErrDenied, cas.NotApplied},
		{cas.ErrInvalid, cas.NotApplied},
		{cas.ErrClosed, cas.NotApplied},
		{cas.ErrContended, cas.NotApplied},
		{&cas.ConflictError{}, cas.NotApplied},
	} {
		for _, err := range []error{
			c.err,
			wrap("etcdkv: commit: %w", c.err),
			wrap("etcdkv: commit: %w: %w", c.err, context.Canceled),
			errors.Join(c.err),
		} {
			if c.err == nil && err != nil {
				continue
			}
			if got := cas.OutcomeOf(err); got != c.want {
				t.Errorf("OutcomeOf(%v) = %q, want %q", err, got, c.want)
			}
		}
	}
	if got := cas.Outcome(7).String(); got != "Outcome(7)" {
		t.Errorf("got %q", got)
	}
}

// settled has an outcome of its own, and whatever it wraps says something else.
type settled struct {
	outcome cas.Outcome
	error
}

func (s settled) Outcome() cas.Outcome { return s.outcome }
func (s settled) Unwrap() error        { return s.error }

type several []error

func (s several) Error() string   { return "several" }
func (s several) Unwrap() []error { return s }

func TestOutcomeOfSeveral(t *testing.T) {
	foreign := errors.New("foreign")
	conflict := wrap("elsewhere: %w", &cas.ConflictError{})
	for name, c := range map[string]struct {
		err  error
		want cas.Outcome
	}{
		"uncertain, with another's cause":    {errors.Join(cas.ErrUncertain, conflict), cas.Uncertain},
		"the other way around":               {errors.Join(conflict, cas.ErrUncertain), cas.Uncertain},
		"deep":                               {wrap("a: %w: %w", wrap("b: %w: %w", conflict, foreign), wrap("c: %w", cas.ErrUncertain)), cas.Uncertain},
		"both not applied":                   {errors.Join(cas.ErrClosed, conflict), cas.NotApplied},
		"one says nothing":                   {errors.Join(foreign, cas.ErrClosed, foreign), cas.NotApplied},
		"applied, and another not":           {errors.Join(settled{cas.Applied, foreign}, conflict), cas.Uncertain},
		"they disagree, and one agrees":      {errors.Join(conflict, cas.ErrUncertain, conflict), cas.Uncertain},
		"the outermost decides":              {settled{cas.Applied, cas.ErrUncertain}, cas.Applied},
		"the outermost decides, of several":  {wrap("a: %w", settled{cas.Uncertain, errors.Join(conflict, cas.ErrClosed)}), cas.Uncertain},
		"it wraps nil":                       {fmt.Errorf("a: %w", nil), cas.Uncertain},
		"it wraps several, and all are nil":  {several{nil, nil}, cas.Uncertain},
		"it wraps several, and some are nil": {several{nil, cas.ErrClosed, nil}, cas.NotApplied},
		"it wraps none":                      {several{}, cas.Uncertain},
		"a conflict that is nil":             {(*cas.ConflictError)(nil), cas.Uncertain},
		"wrapped, a conflict that is nil":    {wrap("a: %w", (*cas.ConflictError)(nil)), cas.Uncertain},
	} {
		if got := cas.OutcomeOf(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func wrap(format string, errs ...any) error {
	if errs[0] == nil {
		return nil
	}
	return fmt.Errorf(format, errs...)
}

func TestConflictErrorNamesTheKey(t *testing.T) {
	one := &cas.ConflictError{Rev: 7, Current: []cas.Entry{{Key: "k", Rev: 5}}}
	two := &cas.ConflictError{Rev: 7, Current: []cas.Entry{{Key: "a"}, {Key: "b"}}}
	for err, want := range map[error]string{one: `"k" at revision 5`, two: "among 2 keys at revision 7"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
}

func TestCondHolds(t *testing.T) {
	e := cas.Entry{Key: "k", Rev: 5, Created: 3, Lease: 9}
	none := cas.Entry{Key: "k"}
	for _, c := range []struct {
		cond        cas.Cond
		there, gone bool
	}{
		{cas.AtRev("k", 5), true, false},
		{cas.AtRev("k", 3), false, false},
		{cas.AtRev("k", 0), false, true},
		{cas.Absent("k"), false, true},
		{cas.CreatedAt("k", 3), true, false},
		{cas.LeasedTo("k", 9), true, false},
		{cas.LeasedTo("k", 0), false, true},
		{cas.Cond{Key: "k", Attr: 9}, false, false},
	} {
		if there, gone := c.cond.Holds(e), c.cond.Holds(none); there != c.there || gone != c.gone {
			t.Errorf("%+v holds %v, and %v of an absent key; want %v, %v", c.cond, there, gone, c.there, c.gone)
		}
	}
}
