package grpcrouter

import (
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"
)

// shape is how the messages of a call are held while they pass through.
//
// In protobuf's encoding a message of no fields takes any other: all of it is "unknown fields", which are kept byte by byte and
// encoded again as they were. In another encoding (content-type application/grpc+json, say) the types that were generated
// for the method are needed.
type shape struct {
	method  string
	subtype string // of the content type; "" and "proto" are protobuf
}

// shapeOf reads the content type of an incoming call.
func shapeOf(method string, md metadata.MD) shape {
	s := shape{method: method}
	_, rest, ok := strings.Cut(first(md, "content-type"), "application/grpc")
	if ok && len(rest) > 1 {
		s.subtype, _, _ = strings.Cut(strings.ToLower(rest[1:]), ";")
	}
	return s
}

func (s shape) opaque() bool { return s.subtype == "" || s.subtype == "proto" }

// request is a message to receive a request into, for its bytes alone.
func (s shape) request() (any, error) {
	if s.opaque() {
		return new(emptypb.Empty), nil
	}
	return typed(s.method, protoreflect.MethodDescriptor.Input)
}

// reply is a message to receive a reply into.
func (s shape) reply() (any, error) {
	if s.opaque() {
		return new(emptypb.Empty), nil
	}
	return typed(s.method, protoreflect.MethodDescriptor.Output)
}

// check reports what request or reply would, before anything is sent.
func (s shape) check() error {
	if _, err := s.request(); err != nil {
		return err
	}
	_, err := s.reply()
	return err
}

// options have the second hop use the encoding of the first.
func (s shape) options() []grpc.CallOption {
	if s.opaque() {
		return nil
	}
	return []grpc.CallOption{grpc.CallContentSubtype(s.subtype)}
}

// typed is a new message of the type that was generated for a method: pick says for which side.
func typed(method string, pick func(protoreflect.MethodDescriptor) protoreflect.MessageDescriptor) (proto.Message, error) {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	unknown := func(err error) error {
		return fmt.Errorf("the messages of %s can't be read: is its generated code part of this program? %w", method, err)
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, unknown(err)
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, unknown(fmt.Errorf("%s is no service", service))
	}
	m := s.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return nil, unknown(fmt.Errorf("service %s has no such method", service))
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(pick(m).FullName())
	if err != nil {
		return nil, unknown(err)
	}
	return t.New().Interface(), nil
}

// pass gives from's content to the empty message to; from must not be used any more. Most often both are of one type; else, as
// with a handler that receives into a dynamicpb.Message, it goes through the encoding.
func pass(from, to any) error {
	src, ok1 := from.(proto.Message)
	dst, ok2 := to.(proto.Message)
	if !ok1 || !ok2 {
		return fmt.Errorf("grpcrouter: a handler receives into a %T: want a protobuf message", to)
	}
	f, t := src.ProtoReflect(), dst.ProtoReflect()
	if f.Type() != t.Type() {
		b, err := proto.Marshal(src)
		if err == nil {
			err = proto.Unmarshal(b, dst)
		}
		return err
	}
	proto.Reset(dst)
	f.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		t.Set(fd, v)
		return true
	})
	t.SetUnknown(f.GetUnknown())
	return nil
}
