package grpcidem_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/grpcidem"
)

// A method has run, and its answer can't be encoded, here for a string that is not UTF-8. The caller gets an error of gRPC and
// retries; that must not run the method again.
func TestUnary_AnswerThatCannotBeEncoded(t *testing.T) {
	kv := memkv.New()
	defer kv.Close()
	e, err := idem.New(idem.OnCAS(kv, ""), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	unary := grpcidem.Unary(e, grpcidem.Config{Scope: tenant})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(grpcidem.Key, "k", "tenant", "a"))
	runs := 0
	for range 2 {
		_, err = unary(ctx, wrapperspb.String("request"), &grpc.UnaryServerInfo{FullMethod: "/s/m"}, func(context.Context, any) (any, error) {
			runs++
			return wrapperspb.String("\xff"), nil
		})
	}
	if runs != 1 {
		t.Errorf("the method has run %d times, want once", runs)
	}
	wantStatus(t, err, codes.FailedPrecondition, "NOT_KEPT", false)
}
