package grpcrouter

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

// CallError is what a call through a Client ends with, but for the io.EOF of streams. It has the status (status.Code and
// status.Convert work on it) and answers whether the call was applied (cas.OutcomeOf).
type CallError struct {
	Method string
	Owner  shard.Member // who was asked last; the zero Member if nobody was
	Epoch  shard.Epoch  // of Owner's claim, as believed

	err     error // what failed
	status  *status.Status
	outcome cas.Outcome
}

func (e *CallError) Error() string {
	who := ""
	if e.Owner.ID != "" {
		who = fmt.Sprintf(" at %s (%q, epoch %s)", e.Owner.ID, e.Owner.Address, e.Epoch)
	}
	return fmt.Sprintf("grpcrouter: %s%s, %s: %s: %s", e.Method, who, e.outcome, e.status.Code(), e.status.Message())
}

// Unwrap is what failed: a *router.KeyError, an *owner.NotOwnerError, the cause of the context's end, or the error of gRPC.
func (e *CallError) Unwrap() error { return e.err }

// GRPCStatus is the status that the owner's handler ended with, or that of the package's table.
func (e *CallError) GRPCStatus() *status.Status { return e.status }

// Code is the status's.
func (e *CallError) Code() codes.Code { return e.status.Code() }

// Outcome is NotApplied if the call was never admitted, what the handler's error said if it was and said so, and else
// Uncertain.
func (e *CallError) Outcome() cas.Outcome { return e.outcome }

// setupError: something could not be made.
type setupError struct{ err error }

func (e *setupError) Error() string        { return e.err.Error() }
func (e *setupError) Unwrap() error        { return e.err }
func (e *setupError) Outcome() cas.Outcome { return cas.NotApplied }

// contextCode is what gRPC calls the end of a context.
func contextCode(err error) codes.Code { return status.FromContextError(err).Code() }
