package grpcidem

import (
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenure-go/tenure/idem"
)

// domain is that of the reasons.
const domain = "tenure.idem"

// soon is when to ask again where nothing better is known: most operations take less.
const soon = time.Second

// newStatus makes a status with a reason, and with RetryInfo if after is above 0.
func newStatus(code codes.Code, reason, message string, after time.Duration) error {
	s := status.New(code, "grpcidem: "+message)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: domain}}
	if after > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	with, err := s.WithDetails(details...)
	if err != nil { // only of OK
		return s.Err()
	}
	return with.Err()
}

func errKeyMissing() error {
	return newStatus(codes.InvalidArgument, "KEY_MISSING", "this method needs metadata "+Key+", unique for each operation", 0)
}

func errKeyInvalid(why string) error {
	return newStatus(codes.InvalidArgument, "KEY_INVALID", "metadata "+Key+": "+why, 0)
}

func errConfig(what string) error { return newStatus(codes.Internal, "CONFIG", what, 0) }

func errStream() error {
	return newStatus(codes.Unimplemented, "STREAM", "a stream can't be replayed, so it takes no "+Key, 0)
}

// errScope passes a status on, such as UNAUTHENTICATED, and hides what else there may be.
func errScope(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return newStatus(codes.PermissionDenied, "SCOPE", "the caller could not be identified, so its "+Key+" could not be looked up", 0)
}

// statusOf is the answer to a call that did not run.
func statusOf(err error) error {
	var (
		busy        *idem.InProgressError
		lost        *idem.LostError
		mismatch    *idem.MismatchError
		expired     *idem.ExpiredError
		large       *idem.TooLargeError
		interrupted *idem.InterruptedError
		failed      *idem.FailedError
	)
	switch {
	case errors.As(err, &busy):
		return newStatus(codes.Aborted, "IN_PROGRESS", "a call with this key is in progress: ask again later", max(min(busy.RetryAfter, soon), time.Millisecond))
	case errors.As(err, &lost):
		return newStatus(codes.Aborted, "IN_PROGRESS", "another try of this call has taken over: ask again later", soon)
	case errors.As(err, &mismatch):
		return newStatus(codes.FailedPrecondition, "MISMATCH", "this key was used for another request: a new one needs a new key, and a retry has to repeat the first exactly", 0)
	case errors.As(err, &expired):
		return newStatus(codes.FailedPrecondition, "EXPIRED", "the call was executed, and its answer is no longer kept; it was not executed again", 0)
	case errors.As(err, &large), errors.As(err, &failed):
		return newStatus(codes.FailedPrecondition, "NOT_KEPT", "the call was executed, and its answer was not kept; it was not executed again", 0)
	case errors.As(err, &interrupted):
		return newStatus(codes.FailedPrecondition, "INTERRUPTED", "an earlier try of this call was interrupted, and it has to be found out how far it came", 0)
	}
	return newStatus(codes.Unavailable, "UNAVAILABLE", "whether this call was executed before can't be told now: ask again later", soon)
}
