package grpcidem

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tenure-go/tenure/idem"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// answer is what is kept of a method's answer.
type answer struct {
	Status  []byte              `json:"status,omitempty"` // google.rpc.Status, with its details; none is OK
	Type    string              `json:"type,omitempty"`   // URL of the response's
	Value   []byte              `json:"value,omitempty"`
	Trailer map[string][][]byte `json:"trailer,omitempty"` // values of "-bin" keys are bytes

	mine *call // whose it is, if it is of this process
}

// newAnswer is what is kept. If it can't be encoded, the method has run all the same: then nothing is kept but that, and
// later calls get NOT_KEPT.
func newAnswer(resp any, err error, trailer metadata.MD) answer {
	var a answer
	for name, values := range trailer {
		for _, v := range values {
			if a.Trailer == nil {
				a.Trailer = make(map[string][][]byte)
			}
			a.Trailer[name] = append(a.Trailer[name], []byte(v))
		}
	}
	if err != nil {
		a.Status, _ = proto.Marshal(status.Convert(err).Proto())
		return a
	}
	message, ok := resp.(proto.Message)
	if !ok {
		return a
	}
	if kept, err := anypb.New(message); err == nil {
		a.Type, a.Value = kept.GetTypeUrl(), kept.GetValue()
	}
	return a
}

// replay gives an answer again.
func (a answer) replay(ctx context.Context) (any, error) {
	trailer := make(metadata.MD)
	for name, values := range a.Trailer {
		for _, v := range values {
			trailer.Append(name, string(v))
		}
	}
	// They fail only if the headers are out, and nothing of this call is.
	_ = grpc.SetHeader(ctx, metadata.Pairs(Replayed, "true"))
	_ = grpc.SetTrailer(ctx, trailer)
	if len(a.Status) > 0 {
		var s statuspb.Status
		if err := proto.Unmarshal(a.Status, &s); err != nil {
			return nil, statusOf(&idem.TooLargeError{Size: -1})
		}
		return nil, status.FromProto(&s).Err()
	}
	message, err := (&anypb.Any{TypeUrl: a.Type, Value: a.Value}).UnmarshalNew()
	if err != nil { // this program does not know the type, or none was kept
		return nil, statusOf(&idem.TooLargeError{Size: -1})
	}
	return message, nil
}

// recorder notes the trailers that a method sets, and passes them on.
type recorder struct {
	grpc.ServerTransportStream
	method string
	mu     sync.Mutex // guards trailer
	md     metadata.MD
}

func (r *recorder) Method() string { return r.method }

func (r *recorder) SetHeader(md metadata.MD) error {
	if r.ServerTransportStream == nil {
		return nil
	}
	return r.ServerTransportStream.SetHeader(md)
}

func (r *recorder) SendHeader(md metadata.MD) error {
	if r.ServerTransportStream == nil {
		return nil
	}
	return r.ServerTransportStream.SendHeader(md)
}

func (r *recorder) SetTrailer(md metadata.MD) error {
	r.mu.Lock()
	r.md = metadata.Join(r.md, md)
	r.mu.Unlock()
	if r.ServerTransportStream == nil {
		return nil
	}
	return r.ServerTransportStream.SetTrailer(md)
}

func (r *recorder) trailers() metadata.MD {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.md
}
