package router

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// KeyError: a request names no key. Nothing ran.
type KeyError struct{ Err error }

func (e *KeyError) Error() string { return "router: no key: " + e.Err.Error() }

// Unwrap is what the KeyFunc returned.
func (e *KeyError) Unwrap() error { return e.Err }

// Outcome is NotApplied.
func (e *KeyError) Outcome() cas.Outcome { return cas.NotApplied }

// ForwardError: a request could not be brought to the owner of its key, or its answer not back.
type ForwardError struct {
	Shard int
	Owner shard.Member // as believed
	Epoch shard.Epoch  // of Owner's claim, as believed
	Sent  bool         // the request, or a part of it, may have reached Owner
	Err   error
}

func (e *ForwardError) Error() string {
	what := "could not be forwarded to"
	if e.Sent {
		what = "was forwarded, with unknown outcome, to"
	}
	return fmt.Sprintf("router: request for shard %d %s its owner %s (%q, epoch %s): %v",
		e.Shard, what, e.Owner.ID, e.Owner.Address, e.Epoch, e.Err)
}

// Unwrap is what failed.
func (e *ForwardError) Unwrap() error { return e.Err }

// Outcome is Uncertain if the request may have reached the owner, else NotApplied.
func (e *ForwardError) Outcome() cas.Outcome {
	if e.Sent {
		return cas.Uncertain
	}
	return cas.NotApplied
}

// bodyError: the client's body broke off while it was still here.
type bodyError struct{ err error }

func (e *bodyError) Error() string        { return "router: reading the request's body: " + e.err.Error() }
func (e *bodyError) Unwrap() error        { return e.err }
func (e *bodyError) Outcome() cas.Outcome { return cas.NotApplied }

// upgradeError: the client asks for a protocol whose name nobody could send on.
type upgradeError struct{ err error }

func (e *upgradeError) Error() string        { return "router: upgrade: " + e.err.Error() }
func (e *upgradeError) Unwrap() error        { return e.err }
func (e *upgradeError) Outcome() cas.Outcome { return cas.NotApplied }

// setupError: something could not be opened, made or begun.
type setupError struct{ err error }

func (e *setupError) Error() string        { return e.err.Error() }
func (e *setupError) Unwrap() error        { return e.err }
func (e *setupError) Outcome() cas.Outcome { return cas.NotApplied }

const outcomeHeader = "Tenure-Outcome"

// WriteError answers with what err says of the request's outcome, in the header Tenure-Outcome and as
// the status; see the package's table. Handlers use it for errors of fences and of cas, whatever wraps
// them; errors from elsewhere are uncertain. Answer errors of your own before it: one that a function
// for fence.SQL.Tx returned is "not applied", so it would become 503, try again. The text says what a
// client may do and nothing of err itself, which can name hosts and tables: log it. With a nil err it
// does nothing. Call it before the answer has begun.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	if err == nil {
		return
	}
	var (
		key     *KeyError
		body    *bodyError
		upgrade *upgradeError
		limit   *http.MaxBytesError
	)
	outcome := cas.OutcomeOf(err)
	switch {
	case errors.As(err, &key):
		http.Error(w, key.Error(), http.StatusBadRequest)
	case outcome == cas.NotApplied && errors.As(err, &limit):
		http.Error(w, "request body too large; nothing was done", http.StatusRequestEntityTooLarge)
	case errors.As(err, &body):
		http.Error(w, "request body ended early, or is longer than it says; nothing was done", http.StatusBadRequest)
	case errors.As(err, &upgrade):
		http.Error(w, "no such protocol to upgrade to; nothing was done", http.StatusBadRequest)
	case outcome == cas.NotApplied:
		w.Header().Set(outcomeHeader, "not-applied")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not applied: try again", http.StatusServiceUnavailable)
	case outcome == cas.Applied:
		w.Header().Set(outcomeHeader, "applied")
		http.Error(w, "applied, but an error followed", http.StatusInternalServerError)
	default:
		w.Header().Set(outcomeHeader, "uncertain")
		http.Error(w, "outcome uncertain: it may have been applied", http.StatusInternalServerError)
	}
}
