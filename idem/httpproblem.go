package idem

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// problemTypes is what the types of problems begin with; HTTP lists how they end.
const problemTypes = "https://github.com/tenure-go/tenure/tree/main/idem"

// problem is an answer by this package instead of the handler.
type problem struct {
	status int
	name   string
	detail string
	after  time.Duration // Retry-After, if above 0
}

// soon is when to ask again where nothing better is known: most operations take less.
const soon = time.Second

// problemOf is the answer to a request that did not run.
func problemOf(err error) problem {
	var (
		key         *keyError
		busy        *InProgressError
		lost        *LostError
		mismatch    *MismatchError
		expired     *ExpiredError
		large       *TooLargeError
		interrupted *InterruptedError
		final       *FailedError
	)
	switch {
	case errors.Is(err, errNoKey):
		return problem{http.StatusBadRequest, "key-missing", errNoKey.detail, 0}
	case errors.As(err, &key):
		return problem{http.StatusBadRequest, "key-invalid", key.detail, 0}
	case errors.As(err, &busy):
		return problem{http.StatusConflict, "in-progress", "a request with this key is in progress: ask again later", min(busy.RetryAfter, soon)}
	case errors.As(err, &lost):
		return problem{http.StatusConflict, "in-progress", "another try of this request has taken over: ask again later", soon}
	case errors.As(err, &mismatch):
		return problem{http.StatusUnprocessableEntity, "mismatch", "this key was used for another request: a new request needs a new key, and a retry has to repeat the first exactly", 0}
	case errors.As(err, &expired):
		return problem{http.StatusGone, "expired", "the request was executed, and its answer is no longer kept; it was not executed again", 0}
	case errors.As(err, &large), errors.As(err, &final):
		return problem{http.StatusGone, "not-kept", "the request was executed, and its answer was not kept; it was not executed again", 0}
	case errors.As(err, &interrupted):
		return problem{http.StatusConflict, "interrupted", "an earlier try of this request was interrupted, and it has to be found out how far it came", 0}
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		return problem{http.StatusInternalServerError, "internal", "the request could not be matched with earlier ones, and was not executed", 0}
	}
	return problem{http.StatusServiceUnavailable, "unavailable", "whether this request was executed before can't be told now: ask again later", soon}
}

// problemOfBody is the answer to a request whose body could not be read or kept.
func problemOfBody(err error) problem {
	if _, large := errors.AsType[*http.MaxBytesError](err); large || errors.Is(err, errBodyTooLarge) {
		return problem{http.StatusRequestEntityTooLarge, "body", "the request's body is too large", 0}
	}
	if _, ours := errors.AsType[*spoolError](err); ours {
		return problem{http.StatusServiceUnavailable, "unavailable", "the request's body could not be kept", soon}
	}
	return problem{http.StatusBadRequest, "body", "the request's body could not be read", 0}
}

// reply sends a problem as RFC 9457 has it.
func reply(w http.ResponseWriter, p problem) {
	b, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{problemTypes + "#" + p.name, http.StatusText(p.status), p.status, p.detail})
	if err != nil {
		b = nil // strings and an int: it can't be
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.after > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.after+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(append(b, '\n')) // if the client has gone, there is nobody to tell
}
