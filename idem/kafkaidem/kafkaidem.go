package kafkaidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
	"github.com/tenure-go/tenure/shard"
)

// Header is the record header by which a producer names the operation, so that a record that it sends twice is one: 1 to 1024
// bytes of UTF-8, once.
const Header = "idempotency-key"

// wait is Request.Wait: longer than an attempt by default, so that a record is not put away for a try that has crashed.
const wait = 2 * time.Minute

// Request is r's operation, as Do runs it: for idem.Lookup, Settle and Reopen. ctx is that of kafka.Partition's Process, or of
// Open; with the header any will do. The error is made by kafka.Bad if it is r's.
func Request(ctx context.Context, tok shard.Token, r *kgo.Record) (idem.Request, error) {
	return request(kafka.Stream(ctx), tok, r)
}

func request(stream string, tok shard.Token, r *kgo.Record) (idem.Request, error) {
	q := idem.Request{Token: tok, Fingerprint: fingerprint(r), Wait: wait}
	key, named, err := header(r)
	switch {
	case err != nil:
		return idem.Request{}, kafka.Bad(r, err)
	case named:
		q.Scope, q.Key = "kafka-key:"+r.Topic, key
	case stream == "":
		return idem.Request{}, refused("the record has no header %s, and the context is not that of a Process of router/kafka, "+
			"so it is not known which topic of that name this is: want one or the other", Header)
	default:
		q.Scope, q.Key = "kafka-offset:"+stream, strconv.Itoa(int(r.Partition))+"/"+strconv.FormatInt(r.Offset, 10)
	}
	return q, nil
}

func header(r *kgo.Record) (key string, named bool, err error) {
	for _, h := range r.Headers {
		if h.Key != Header {
			continue
		}
		if named {
			return "", false, refused("the record has several headers %s: want one", Header)
		}
		key, named = string(h.Value), true
	}
	if named && (key == "" || len(key) > 1024 || !utf8.ValidString(key)) {
		return "", false, refused("the record's header %s is %.100q, of %d bytes: want 1 to 1024 of UTF-8", Header, key, len(key))
	}
	return key, named, nil
}

// fingerprint tells a key or value that is absent, as in a tombstone, from an empty one.
func fingerprint(r *kgo.Record) []byte {
	there := func(b []byte) []byte { return strconv.AppendBool(nil, b != nil) }
	return idem.Fingerprint([]byte("kafka/1"), there(r.Key), r.Key, there(r.Value), r.Value)
}

// Do runs fn once for r, under tok, which is the tenure's: as idem.Do does, whose result nobody gets here. ctx is that of
// kafka.Partition's Process. Each edit changes the request before: its Interrupted, or its Wait of 2 minutes. A hand-off waits
// for fn, but not for another try: that is left to the next owner.
//
// The error is what Process is to return. See the package's documentation.
func Do(ctx context.Context, e *idem.Engine, tok shard.Token, r *kgo.Record, fn func(ctx context.Context, op *idem.Op) error, edit ...func(*idem.Request)) error {
	q, err := Request(ctx, tok, r)
	if err != nil {
		return err
	}
	for _, change := range edit {
		change(&q)
	}
	ctx, begin, end := waiting(ctx)
	defer end()
	ran := false
	_, err = idem.Do(ctx, e, q, func(ctx context.Context, op *idem.Op) (struct{}, error) {
		if !begin() {
			return struct{}{}, errDraining
		}
		ran = true
		if err := fn(ctx, op); err != nil {
			return struct{}{}, &fnError{err}
		}
		return struct{}{}, nil
	})
	return verdict(tok, r, err, ran)
}

// grace is how long an operation may take to begin once its shard is to be handed off: far longer than the store takes, and far
// shorter than owner.Config.DrainTimeout.
const grace = time.Second

// errDraining is not applied, so it leaves no doubt about the operation.
var errDraining = refused("the shard is to be handed off, and its next owner need not wait for the other try")

// waiting returns a context that ends a while after the tenure of ctx is to be handed off, unless begin was called before, which reports
// whether it was in time. end frees what that takes.
func waiting(ctx context.Context) (_ context.Context, begin func() bool, end func()) {
	t, err := owner.From(ctx)
	if err != nil {
		return ctx, func() bool { return true }, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	begun := make(chan struct{})
	var first sync.Once
	go func() {
		select {
		case <-begun:
			return
		case <-t.Draining():
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-begun:
		case <-timer.C:
			first.Do(func() { cancel(errDraining) })
		}
	}()
	begin = func() bool {
		first.Do(func() { close(begun) })
		return context.Cause(ctx) != errDraining
	}
	return ctx, begin, func() { begin(); cancel(nil) }
}

// verdict words an error of idem.Do for router/kafka. ran: fn was called.
func verdict(tok shard.Token, r *kgo.Record, err error, ran bool) error {
	switch e := err.(type) { // not errors.As: fn's may wrap, or be, one of another operation
	case *fnError:
		if unsettled(e.error) {
			return e.error
		}
		return kafka.NotApplied(e.error) // of what another try would apply again
	case nil:
		return nil
	case *idem.TooLargeError:
		if e.Step == "" {
			return nil
		}
	case *idem.ExpiredError:
		if e.Outcome() == cas.Applied {
			return nil
		}
		return kafka.Bad(r, err)
	case *idem.FailedError, *idem.MismatchError, *idem.InterruptedError:
		return kafka.Bad(r, err)
	case *idem.SupersededError:
		// That nothing was applied is true of this try; but another one here would not help.
		return fmt.Errorf("kafkaidem: %w: %w", &owner.LostError{Token: tok, Reason: "a later owner has run an operation of the shard"}, err)
	case *idem.InProgressError, *idem.LostError, *idem.FinishError:
		return err
	}
	// Its own word: what Reconcile's function has failed with, which Do wraps, may speak of another operation.
	if own, ok := err.(interface{ Outcome() cas.Outcome }); ok && own.Outcome() == cas.Applied {
		return nil // it is done, and nobody gets the result here: what a Last step has recorded can't be read as one
	}
	if ran || unsettled(err) {
		return err
	}
	return kafka.NotApplied(err) // such as Reconcile's, which is to be asked again
}

// unsettled: a step's effect may not have been recorded, which only the next tenure can take over at once.
func unsettled(err error) bool {
	_, lost := errors.AsType[*idem.LostError](err)
	_, unfinished := errors.AsType[*idem.FinishError](err)
	return lost || unfinished
}

// fnError is what fn has returned, to be told from what idem.Do says.
type fnError struct{ error }

func (e *fnError) Unwrap() error        { return e.error }
func (e *fnError) Outcome() cas.Outcome { return cas.OutcomeOf(e.error) }

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

func refused(format string, args ...any) error {
	return &refusal{"kafkaidem: " + fmt.Sprintf(format, args...)}
}
