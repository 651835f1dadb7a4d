package grpcrouter_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tenure-go/tenure/router/grpcrouter"
	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

func TestField(t *testing.T) {
	full := &echopb.Request{
		Key: "alice", N: 7, Payload: []byte("p"), Tags: []string{"t"},
		Inner:  &echopb.Inner{Id: "i", Inner: &echopb.Inner{Id: "ii"}},
		Either: &echopb.Request_Name{Name: "n"},
	}
	for _, c := range []struct {
		field string
		req   any
		want  string
		err   string // in the error
	}{
		{"key", full, "alice", ""},
		{"inner.id", full, "i", ""},
		{"inner.inner.id", full, "ii", ""},
		{"name", full, "n", ""},
		{"key", &echopb.Request{}, "", `field "key" of tenure.echo.Request is empty`},
		{"inner.id", &echopb.Request{}, "", "is empty"},
		{"name", &echopb.Request{Either: &echopb.Request_Number{Number: 1}}, "", "is empty"},
		{"account_id", full, "", `tenure.echo.Request has no field "account_id"`},
		{"Key", full, "", "want the name in the .proto file"},
		{"n", full, "", "is of kind int64: want a string"},
		{"payload", full, "", "is of kind bytes: want a string"},
		{"inner", full, "", "is of kind message: want a string"},
		{"tags", full, "", "many values"},
		{"key.id", full, "", "is of kind string: want a message"},
		{"inner.nothing", full, "", `tenure.echo.Inner has no field "nothing"`},
		{"", full, "", "has no field"},
		{"key", nil, "", "first message"},
		{"key", "text", "", "want a protobuf message"},
	} {
		f := grpcrouter.Field(c.field)
		for range 2 { // what was compiled, and again
			got, err := f(t.Context(), "/tenure.echo.Echo/Unary", c.req)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("Field(%q) of %v: got %q, %v; want %q, %s", c.field, c.req, got, err, c.want, c.err)
			}
		}
	}
	for _, method := range []string{"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		if _, err := grpcrouter.Field("key")(t.Context(), method, full); !errors.Is(err, grpcrouter.ErrUnrouted) {
			t.Errorf("%s: got %v, want ErrUnrouted", method, err)
		}
	}
}

// Two types of one name, as programs have that read descriptors at run time.
func TestFieldOfTypesMadeUp(t *testing.T) {
	f := grpcrouter.Field("key")
	for range 3 {
		for _, number := range []int32{1, 5} {
			file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
				Name: proto.String("made.proto"), Package: proto.String("tenure.echo"), Syntax: proto.String("proto3"),
				MessageType: []*descriptorpb.DescriptorProto{{
					Name: proto.String("Request"),
					Field: []*descriptorpb.FieldDescriptorProto{{
						Name: proto.String("key"), Number: proto.Int32(number),
						Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
					}},
				}},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			m := dynamicpb.NewMessage(file.Messages().Get(0))
			m.Set(m.Descriptor().Fields().Get(0), m.NewField(m.Descriptor().Fields().Get(0)))
			if _, err := f(t.Context(), "/x/y", m); err == nil || !strings.Contains(err.Error(), "empty") {
				t.Errorf("got %v, want: empty", err)
			}
		}
		if got, err := f(t.Context(), "/x/y", &echopb.Request{Key: "alice"}); got != "alice" || err != nil {
			t.Errorf("got %q, %v; want alice", got, err)
		}
	}
}

func BenchmarkField(b *testing.B) {
	f := grpcrouter.Field("key")
	r := &echopb.Request{Key: "alice"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f(b.Context(), "/tenure.echo.Echo/Unary", r); err != nil {
			b.Fatal(err)
		}
	}
}
