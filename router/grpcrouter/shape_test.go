package grpcrouter

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

// A handler may receive a stream's first message into whatever can hold it, whoever made the type.
func TestPassBetweenTypes(t *testing.T) {
	full := func() *echopb.Request {
		return &echopb.Request{Key: "alice", N: 7, Tags: []string{"a", "b"}, Inner: &echopb.Inner{Id: "x"}, Either: &echopb.Request_Number{Number: 3}}
	}
	d := full().ProtoReflect().Descriptor()
	made := func() proto.Message {
		m := dynamicpb.NewMessage(d)
		proto.Merge(m, full())
		return m
	}
	for name, c := range map[string]struct{ from, to proto.Message }{
		"generated":  {full(), new(echopb.Request)},
		"to dynamic": {full(), dynamicpb.NewMessage(d)},
		"of dynamic": {made(), new(echopb.Request)},
		"dynamic":    {made(), dynamicpb.NewMessage(d)},
	} {
		if err := pass(c.from, c.to); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b, err := proto.Marshal(c.to)
		got := new(echopb.Request)
		if err == nil {
			err = proto.Unmarshal(b, got)
		}
		if err != nil || !proto.Equal(got, full()) {
			t.Errorf("%s: got %v %v, want %v", name, got, err, full())
		}
	}
}
