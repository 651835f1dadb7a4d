package grpcrouter

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Field takes the key from a string field of the request message, by its name in the .proto file. Dots go into messages
// in fields: "account.id". What is missing or of another kind is an error that says so, of each call to that method. The name
// is looked up once for each type of message.
//
// Methods of gRPC's own services (packages grpc.*, such as health and reflection) are ErrUnrouted.
func Field(name string) KeyFunc {
	f := &field{name: name, path: strings.Split(name, ".")}
	return f.key
}

// field is a Field. Safe for concurrent use.
type field struct {
	name     string
	path     []string
	compiled sync.Map // protoreflect.FullName of a message -> *fieldPath
}

// fieldPath is the way to the field in messages of one type.
type fieldPath struct {
	of    protoreflect.MessageDescriptor
	steps []protoreflect.FieldDescriptor
	err   error // there is no such way
}

func (f *field) key(_ context.Context, method string, req any) (string, error) {
	if infrastructure(method) {
		return "", ErrUnrouted
	}
	if req == nil {
		return "", errNoMessage
	}
	m, ok := req.(proto.Message)
	if !ok {
		return "", fmt.Errorf("the request is a %T: want a protobuf message that has field %q", req, f.name)
	}
	msg := m.ProtoReflect()
	p := f.in(msg.Descriptor())
	if p.err != nil {
		return "", p.err
	}
	last := len(p.steps) - 1
	for _, step := range p.steps[:last] {
		msg = msg.Get(step).Message() // of one that is absent: empty
	}
	if key := msg.Get(p.steps[last]).String(); key != "" {
		return key, nil
	}
	return "", fmt.Errorf("field %q of %s is empty", f.name, p.of.FullName())
}

// in is the way in messages of type d. Programs that make up types as they go may have several of one name: only the last
// is kept, so there are never more ways than names.
func (f *field) in(d protoreflect.MessageDescriptor) *fieldPath {
	if p, ok := f.compiled.Load(d.FullName()); ok && p.(*fieldPath).of == d {
		return p.(*fieldPath)
	}
	p := &fieldPath{of: d}
	p.steps, p.err = f.compile(d)
	f.compiled.Store(d.FullName(), p)
	return p
}

func (f *field) compile(d protoreflect.MessageDescriptor) ([]protoreflect.FieldDescriptor, error) {
	var steps []protoreflect.FieldDescriptor
	for i, name := range f.path {
		step := d.Fields().ByName(protoreflect.Name(name))
		last := i == len(f.path)-1
		switch {
		case step == nil:
			return nil, fmt.Errorf("%s has no field %q, for key %q: want the name in the .proto file", d.FullName(), name, f.name)
		case step.IsList() || step.IsMap():
			return nil, fmt.Errorf("field %q of %s, for key %q, has many values: want one", name, d.FullName(), f.name)
		case last && step.Kind() != protoreflect.StringKind:
			return nil, fmt.Errorf("field %q of %s, for key %q, is of kind %s: want a string", name, d.FullName(), f.name, step.Kind())
		case !last && step.Message() == nil:
			return nil, fmt.Errorf("field %q of %s, for key %q, is of kind %s: want a message", name, d.FullName(), f.name, step.Kind())
		}
		steps = append(steps, step)
		if !last {
			d = step.Message()
		}
	}
	return steps, nil
}
