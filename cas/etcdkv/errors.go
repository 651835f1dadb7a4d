package etcdkv

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
)

// refusal returns the cas error for an answer that says for sure that a request was not
// carried out; nil if err says no such thing. etcd's own errors come with a gRPC code, but
// the codes alone are too coarse: Unavailable, which is most of what goes wrong, is never a
// refusal, since etcd also says it of requests that it has proposed and lost sight of.
func refusal(err error) error {
	var known rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &known) {
		if is, ok := refusals[known]; ok {
			return is
		}
	}
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return cas.ErrDenied
	case codes.InvalidArgument, codes.OutOfRange:
		return cas.ErrInvalid
	case codes.FailedPrecondition, codes.NotFound, codes.Unimplemented:
		return cas.ErrUnavailable // a learner, a cluster being changed, or no etcd at all
	}
	return nil
}

// refusals are the answers that callers branch on; whatever else refuses is told by its code.
// "no leader" is said before a request is looked at, and only to those that ask for a leader.
var refusals = map[error]error{
	rpctypes.ErrLeaseNotFound:    cas.ErrLeaseNotFound,
	rpctypes.ErrCompacted:        cas.ErrCompacted,
	rpctypes.ErrFutureRev:        cas.ErrFutureRev,
	rpctypes.ErrNoSpace:          cas.ErrNoSpace,
	rpctypes.ErrNoLeader:         cas.ErrNoLeader,
	rpctypes.ErrTooManyRequests:  cas.ErrUnavailable,
	rpctypes.ErrUserEmpty:        cas.ErrDenied,
	rpctypes.ErrAuthFailed:       cas.ErrDenied,
	rpctypes.ErrAuthOldRevision:  cas.ErrDenied,
	rpctypes.ErrInvalidAuthMgmt:  cas.ErrDenied,
	rpctypes.ErrUserNotFound:     cas.ErrDenied,
	rpctypes.ErrRoleNotFound:     cas.ErrDenied,
	rpctypes.ErrPermissionDenied: cas.ErrDenied,
}

// explain wraps err with what was attempted, the cas error that it amounts to, and the
// context's error if that is what ended the request. otherwise is for an err that is no refusal.
func explain(ctx context.Context, what string, err, otherwise error) error {
	is := refusal(err)
	if is == nil {
		is = otherwise
	}
	if ctx.Err() != nil {
		return &failure{what: what, is: is, cause: context.Cause(ctx), detail: fmt.Sprintf(" (%v)", err)}
	}
	return &failure{what: what, is: is, cause: err}
}

// failure is the error of a request. Its outcome is its own: the cause may be the one that the
// caller's context was ended with, which may be an error of another request and have another
// outcome.
type failure struct {
	what   string
	is     error // the cas error that it amounts to
	cause  error
	detail string // ends the message
}

func (f *failure) Error() string {
	return fmt.Sprintf("etcdkv: %s: %v: %v%s", f.what, f.is, f.cause, f.detail)
}
func (f *failure) Unwrap() []error      { return []error{f.is, f.cause} }
func (f *failure) Outcome() cas.Outcome { return cas.OutcomeOf(f.is) }
