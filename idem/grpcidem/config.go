package grpcidem

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/shard"
)

// Config configures Unary and Stream. Scope is required.
type Config struct {
	// Scope is whose key it is: the authenticated tenant or caller. An error that is no status of its own is
	// PERMISSION_DENIED; Logger is told of it, the client is not.
	Scope func(ctx context.Context) (string, error)

	// Need says by its full name ("/pay.v1.Pay/Charge") whether a method needs a key. Defaults to
	// Optional for all.
	Need func(method string) idem.Need

	// Token is the owner's under which the method runs: owner.TokenFrom. Defaults to none.
	Token func(context.Context) shard.Token

	// Keep says which codes end the operation and are replayed. Others let go of it, so that the next
	// try runs the method again, unless it has called Op.Decide. Defaults to KeepByCode.
	Keep func(codes.Code) bool

	// Wait is how long a call waits for another with its key that is in progress, before ABORTED.
	// Defaults to 0: not at all.
	Wait time.Duration

	// Interrupted is idem.Request.Interrupted: Retry or Block. Defaults to Retry.
	Interrupted idem.Policy

	// Logger is told of Scope's errors, and of answers that were sent and could not be recorded. Defaults to silence.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Need == nil {
		c.Need = func(string) idem.Need { return idem.Optional }
	}
	if c.Keep == nil {
		c.Keep = KeepByCode
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// KeepByCode keeps OK and what will be the same next time: INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS,
// PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE and UNIMPLEMENTED.
func KeepByCode(c codes.Code) bool {
	switch c {
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

// undone reports whether a code says that nothing was done.
func undone(c codes.Code) bool {
	switch c {
	case codes.ResourceExhausted, codes.Aborted, codes.Unauthenticated:
		return true
	}
	return false
}
