package grpcrouter

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
)

// refusal is the status of a call whose key is not owned here and that goes no further.
func refusal(no *owner.NotOwnerError) *status.Status {
	facts := map[string]string{"shard": fmt.Sprint(no.Shard)}
	if no.Owner.ID != "" {
		facts["owner"], facts["address"], facts["epoch"] = no.Owner.ID, no.Owner.Address, no.Epoch.Decimal()
	}
	return say(status.New(codes.Unavailable, no.Error()), cas.NotApplied, facts)
}

// notAdmitted is the status of a call that this node has refused to run, for another reason than who the owner is. It names no
// secrets: only this library's own errors come here, and those of KeyFuncs.
func notAdmitted(ctx context.Context, err error) *status.Status {
	code := codes.Unavailable
	if s, ok := errors.AsType[stater](err); ok {
		return s.GRPCStatus()
	}
	if _, ok := errors.AsType[*router.KeyError](err); ok {
		code = codes.InvalidArgument
	} else if ctx.Err() != nil {
		code = contextCode(ctx.Err())
	}
	return say(status.New(code, err.Error()), cas.NotApplied, nil)
}

// ran is the status of a call whose handler returned err in the tenure of inner; outer is the call's context. known is false
// if clients don't get to see what err says. To be called before inner ends by leaving the tenure.
//
// The outcome is err's only if err speaks of this call: a refusal of a call that the handler has made is not one of the call
// that it serves, of which a part may be done.
func ran(outer, inner context.Context, err error) (s *status.Status, known bool) {
	if isNested(err) {
		return say(status.New(codes.Unknown, "outcome uncertain: a call that the handler made failed: "+err.Error()), cas.Uncertain, nil), true
	}
	own, hasStatus := errors.AsType[stater](err)
	_, says := errors.AsType[sayer](err)
	switch {
	case hasStatus && says:
		return say(own.GRPCStatus(), cas.OutcomeOf(err), nil), true
	case says:
		return fromOutcome(cas.OutcomeOf(err)), false
	}
	if s, hasStatus = status.FromError(err); !hasStatus {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			s = status.FromContextError(context.DeadlineExceeded)
		case errors.Is(err, context.Canceled):
			s = status.FromContextError(context.Canceled)
		default:
			return fromOutcome(cas.Uncertain), false
		}
	}
	if s.Code() == codes.Canceled && outer.Err() == nil && inner.Err() != nil {
		// It was the tenure that ended, and not the client that went away.
		text := "outcome uncertain, it may have been applied: the owner was replaced while it ran"
		return say(status.New(codes.Unknown, text), cas.Uncertain, nil), true
	}
	return status.FromProto(silent(s)), hasStatus || outer.Err() != nil
}

// isNested: err comes from a call that the handler has made, through a Client or into another tenure.
func isNested(err error) bool {
	_, call := errors.AsType[*CallError](err)
	_, not := errors.AsType[*owner.NotOwnerError](err)
	return call || not || errors.Is(err, owner.ErrBusy)
}

// fromOutcome is the status of an error that says no more than its outcome, in words that clients may see.
func fromOutcome(o cas.Outcome) *status.Status {
	switch o {
	case cas.NotApplied:
		return say(status.New(codes.Unavailable, "not applied: try again"), o, nil)
	case cas.Applied:
		return say(status.New(codes.Internal, "applied, but an error followed"), o, nil)
	}
	return say(status.New(codes.Unknown, "outcome uncertain: it may have been applied"), cas.Uncertain, nil)
}
