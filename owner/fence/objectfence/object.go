package objectfence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Object is a shard's object in the hands of the owner that has sealed it. Its zero value is of no use. One
// goroutine uses it at a time.
type Object struct {
	fence *Fence
	tok   shard.Token
	etag  string // as this owner knows it; "" if there is no object
	is    envelope
	body  []byte

	sent int64 // the number of the last write that was tried
}

// Body is the state as last read or written. The caller must not change it.
func (o *Object) Body() []byte { return o.body }

// writeTries bounds how many of those, in one Write.
const writeTries = 4

// Write replaces the state. nil means that it was written under the epoch that was sealed, and that o.Body is
// body, which the caller must not change from then on. *fence.FencedError: a newer owner has sealed.
// fence.ErrNotSealed: the object is gone, or was put back to an older one. ErrConflict: try again. After those
// nothing was written. After cas.ErrUncertain the next Write finds out what is there, and goes on from that.
func (o *Object) Write(ctx context.Context, body []byte) error {
	// A write of before that was given up for lost may have arrived, or arrive now: then this one does not
	// match, and is tried again on top of it.
	for range writeTries {
		o.sent++
		next := envelope{GroupID: o.tok.GroupID, Epoch: o.tok.Epoch, Write: o.sent}
		status, etag, err := o.fence.bucket.Put(ctx, o.fence.key(o.tok), next.wrap(body), o.etag)
		switch {
		case err != nil:
			return uncertain("write", err)
		case status == http.StatusOK:
			o.is, o.body, o.etag = next, body, etag
			return nil
		case status == http.StatusConflict:
			return ErrConflict
		case status != http.StatusPreconditionFailed && status != http.StatusNotFound:
			return uncertain("write", fmt.Errorf("the bucket answered %d", status))
		}
		if err := o.refresh(ctx); err != nil {
			return err
		}
	}
	return ErrConflict
}

// refresh reads the object again. Its error says that this owner is not the one who may write, or that there was
// no answer; in neither case was the write at hand applied.
func (o *Object) refresh(ctx context.Context) error {
	now, err := o.fence.read(ctx, o.tok)
	if err != nil {
		return err
	}
	if err := now.known().Refuse(o.tok); err != nil {
		return err
	}
	o.is, o.body, o.etag = now.is, now.body, now.etag
	o.sent = max(o.sent, now.sent) // another Object of this token may have written: its numbers are not to come again
	return nil
}

func (o *Object) known() fence.State {
	return fence.State{GroupID: o.is.GroupID, Epoch: o.is.Epoch, Wanted: o.is.Epoch}
}

// envelope is the first line of an object, as JSON. No two writes have the same, so no two have one ETag.
type envelope struct {
	Format  int         `json:"format"`
	GroupID string      `json:"group_id"`
	Epoch   shard.Epoch `json:"epoch"` // a string, see there
	Write   int64       `json:"write"` // how many under this epoch
}

const format = 1

func (e envelope) wrap(body []byte) []byte {
	e.Format = format
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // numbers and strings can be written down
	}
	return append(append(line, '\n'), body...)
}

func unwrap(content []byte) (e envelope, body []byte, err error) {
	line, body, found := bytes.Cut(content, []byte("\n"))
	if !found {
		return e, nil, errors.New("the object has no line with an epoch: was it written by something else?")
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return e, nil, fmt.Errorf("the object's first line: %w", err)
	}
	if e.Format != format {
		return e, nil, fmt.Errorf("the object has format %d, want %d", e.Format, format)
	}
	return e, body, nil
}
