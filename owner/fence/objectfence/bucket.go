package objectfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Bucket is what a Fence needs of an object store. Safe for concurrent use.
type Bucket interface {
	// Get reads an object as it is now: a strongly consistent read. One that is not there has no ETag, and
	// is no error.
	Get(ctx context.Context, key string) (body []byte, etag string, err error)

	// Put writes an object under If-Match: etag, or, if etag is "", under If-None-Match: *. It returns the
	// answer's HTTP status, whatever it is, and on 200 the new ETag. An error means that there was no
	// answer. An ETag is passed on as it came, quotes included. The request is sent once: a client that
	// tries again by itself must be told not to, for the second of two sends gets 412 though the first
	// was applied, and then a 412 would prove nothing.
	Put(ctx context.Context, key string, body []byte, etag string) (status int, newETag string, err error)
}

// Config configures a Fence. The zero value is a good one.
type Config struct {
	// Prefix begins each object's key. Defaults to "tenure/".
	Prefix string
}

// Fence fences one object per group and shard. Make it with New; safe for concurrent use.
type Fence struct {
	bucket Bucket
	prefix string
}

// New does no I/O.
func New(bucket Bucket, c Config) (*Fence, error) {
	if bucket == nil {
		return nil, refused("objectfence: New: bucket is nil")
	}
	if c.Prefix == "" {
		c.Prefix = "tenure/"
	}
	return &Fence{bucket: bucket, prefix: c.Prefix}, nil
}

func (f *Fence) key(tok shard.Token) string {
	return fmt.Sprintf("%s%s/%05d", f.prefix, tok.Group, tok.Shard)
}

// sealTries bounds how often Seal begins anew because somebody wrote in between: an owner that does not know
// yet that it is replaced, or another that seals. A try is two requests and a write is one, so an owner that never rests
// wins often; but each try that fails is one of its writes, and Seal does not rest either.
const sealTries = 256

// Seal makes tok's epoch the object's, and returns the object with what the last owner left in it, which is current
// and stays so. Its body is empty if there was none. *fence.FencedError if a higher epoch is there,
// *fence.GroupError if the object is another group's; then nothing has changed. Idempotent: after an
// error call it again.
func (f *Fence) Seal(ctx context.Context, tok shard.Token) (*Object, error) {
	if err := fence.CheckToken(tok); err != nil {
		return nil, err
	}
	for range sealTries {
		o, err := f.read(ctx, tok)
		if err != nil {
			return nil, err
		}
		if err := o.known().Refuse(tok); err == nil {
			return o, nil // by a Seal whose answer was lost
		} else if !errors.Is(err, fence.ErrNotSealed) {
			return nil, err
		}
		o.is = envelope{GroupID: tok.GroupID, Epoch: tok.Epoch}
		status, etag, err := f.bucket.Put(ctx, f.key(tok), o.is.wrap(o.body), o.etag)
		switch {
		case err != nil:
			return nil, uncertain("seal "+tok.String(), err)
		case status == http.StatusOK:
			o.etag = etag
			return o, nil
		case status != http.StatusPreconditionFailed && status != http.StatusConflict && status != http.StatusNotFound:
			return nil, uncertain("seal "+tok.String(), fmt.Errorf("the bucket answered %d", status))
		}
	}
	return nil, refused("objectfence: seal %s: somebody else wrote before each of %d tries: try again", tok, sealTries)
}

// Check reads whether tok is what was sealed: nil, or what a Write would fail with. It says nothing of later.
func (f *Fence) Check(ctx context.Context, tok shard.Token) error {
	if err := fence.CheckToken(tok); err != nil {
		return err
	}
	o, err := f.read(ctx, tok)
	if err != nil {
		return err
	}
	return o.known().Refuse(tok)
}

func (f *Fence) read(ctx context.Context, tok shard.Token) (*Object, error) {
	content, etag, err := f.bucket.Get(ctx, f.key(tok))
	if err != nil {
		return nil, notApplied("read", err)
	}
	o := &Object{fence: f, tok: tok, etag: etag}
	if etag == "" {
		return o, nil
	}
	o.is, o.body, err = unwrap(content)
	if err != nil {
		return nil, refused("objectfence: %s: %v", f.key(tok), err)
	}
	o.sent = o.is.Write
	return o, nil
}

// ErrConflict: another request for the object was under way at the same time (409). Not applied; try again.
var ErrConflict error = &refusal{"objectfence: another request for the object was under way: nothing was written; try again"}

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

type opError struct {
	op      string
	err     error
	outcome cas.Outcome
}

func (e *opError) Error() string        { return "objectfence: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error        { return e.err }
func (e *opError) Outcome() cas.Outcome { return e.outcome }

func notApplied(op string, err error) error { return &opError{op, err, cas.NotApplied} }

func uncertain(op string, err error) error {
	return &opError{op, fmt.Errorf("%w: %w", cas.ErrUncertain, err), cas.Uncertain}
}
