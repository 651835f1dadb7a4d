package grpcrouter

import (
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenure-go/tenure/cas"
)

// domain is that of the google.rpc.ErrorInfo by which a status says its outcome, as its reason.
const domain = "tenure"

var reasons = map[cas.Outcome]string{
	cas.Uncertain:  "UNCERTAIN",
	cas.NotApplied: "NOT_APPLIED",
	cas.Applied:    "APPLIED",
}

// retryAfter is what clients are told to wait: by then a hand-off is over.
const retryAfter = time.Second

// Outcome is cas.OutcomeOf for clients that reach nodes by a plain *grpc.ClientConn: it reads the outcome that a
// status carries, and an err that has none is Uncertain. For errors of a Client both give the same.
func Outcome(err error) cas.Outcome {
	if err == nil {
		return cas.Applied
	}
	if _, ok := errors.AsType[sayer](err); ok {
		return cas.OutcomeOf(err)
	}
	s, ok := errors.AsType[stater](err)
	if !ok {
		return cas.Uncertain
	}
	o, _ := saidBy(s.GRPCStatus())
	return o
}

// sayer is an error that says its outcome.
type sayer interface {
	error
	Outcome() cas.Outcome
}

// stater is an error that has a status.
type stater interface {
	error
	GRPCStatus() *status.Status
}

// saidBy is the outcome that s carries; Uncertain if it carries none.
func saidBy(s *status.Status) (o cas.Outcome, ok bool) {
	for _, d := range s.Proto().GetDetails() {
		info, own := ownInfo(d)
		if !own {
			continue
		}
		for o, reason := range reasons {
			if info.Reason == reason {
				return o, true
			}
		}
	}
	return cas.Uncertain, false
}

func ownInfo(d *anypb.Any) (*errdetails.ErrorInfo, bool) {
	info := new(errdetails.ErrorInfo)
	if !d.MessageIs(info) || d.UnmarshalTo(info) != nil || info.Domain != domain {
		return nil, false
	}
	return info, true
}

// say is s with the outcome o as a detail, and nothing else that claims to be one. Facts go along. What is Unavailable
// and was not applied may be tried again, and says when.
func say(s *status.Status, o cas.Outcome, facts map[string]string) *status.Status {
	p := silent(s)
	add := func(m proto.Message) {
		if d, err := anypb.New(m); err == nil {
			p.Details = append(p.Details, d)
		}
	}
	add(&errdetails.ErrorInfo{Reason: reasons[o], Domain: domain, Metadata: facts})
	if o == cas.NotApplied && s.Code() == codes.Unavailable {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	}
	return status.FromProto(p)
}

// silent is s without details that speak of the outcome.
func silent(s *status.Status) *spb.Status {
	p := s.Proto() // a copy
	kept := p.Details[:0]
	for _, d := range p.Details {
		if _, own := ownInfo(d); !own {
			kept = append(kept, d)
		}
	}
	p.Details = kept
	return p
}
