package objectfence_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/objectfence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket answers as S3 does; ETags are MD5 of the content and of nothing else. The next answers may be laid down.
type bucket struct {
	mu      sync.Mutex // guards all below
	objects map[string][]byte
	script  []func() (status int, apply bool, err error) // one for each Put to come
	late    []func()                                     // Puts that were given up for lost
	noGet   error
	puts    int
}

func etag(content []byte) string {
	if content == nil {
		return ""
	}
	return fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(content)))
}

func (b *bucket) Get(_ context.Context, key string) ([]byte, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noGet != nil {
		return nil, "", b.noGet
	}
	return b.objects[key], etag(b.objects[key]), nil
}

func (b *bucket) Put(ctx context.Context, key string, body []byte, match string) (int, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil {
		return 0, "", ctx.Err()
	}
	b.puts++
	put := func() int {
		switch now := etag(b.objects[key]); {
		case now == "" && match != "":
			return http.StatusNotFound
		case now != match:
			return http.StatusPreconditionFailed
		}
		b.objects[key] = bytes.Clone(body)
		return http.StatusOK
	}
	if len(b.script) > 0 {
		step := b.script[0]
		b.script = b.script[1:]
		status, apply, err := step()
		if apply {
			put()
		} else if err != nil {
			b.late = append(b.late, func() { put() })
		}
		return status, "", err
	}
	return put(), etag(body), nil
}

// answers lays down the next: a status with nothing applied, or an error, with or without.
func (b *bucket) answers(steps ...any) {
	for _, s := range steps {
		b.script = append(b.script, func() (int, bool, error) {
			switch s := s.(type) {
			case int:
				return s, false, nil
			case error:
				return 0, errors.Is(s, errReplyLost), s
			}
			panic("what?")
		})
	}
}

var (
	errReplyLost   = errors.New("reply lost")
	errRequestLost = errors.New("request lost")
)

func newFence(t testing.TB) (*objectfence.Fence, *bucket) {
	t.Helper()
	b := &bucket{objects: make(map[string][]byte)}
	f, err := objectfence.New(b, objectfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return f, b
}

func sealed(t *testing.T, f *objectfence.Fence, revision int64) *objectfence.Object {
	t.Helper()
	o, err := f.Seal(t.Context(), fencetest.Token(revision))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func isFenced(err error) bool {
	_, ok := errors.AsType[*fence.FencedError](err)
	return ok
}

func TestOwnerFollowsOwner(t *testing.T) {
	f, _ := newFence(t)
	first := sealed(t, f, 1)
	if got := first.Body(); len(got) != 0 {
		t.Errorf("a new object holds %q", got)
	}
	for _, body := range []string{"a", "b\nc", ""} {
		if err := first.Write(t.Context(), []byte(body)); err != nil {
			t.Fatal(err)
		}
		if next := sealed(t, f, 1); string(next.Body()) != body {
			t.Errorf("read %q, want %q", next.Body(), body)
		}
	}
	if err := first.Write(t.Context(), []byte("last words")); err != nil {
		t.Fatal(err)
	}
	second := sealed(t, f, 2)
	if string(second.Body()) != "last words" {
		t.Errorf("the second owner reads %q", second.Body())
	}
	err := first.Write(t.Context(), []byte("zombie"))
	if !isFenced(err) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("the first owner: got %v (%s), want it fenced", err, cas.OutcomeOf(err))
	}
}

// Whatever the state, each write and each seal has an ETag of its own: else an old one would match again.
func TestI6_NoETagComesTwice(t *testing.T) {
	f, b := newFence(t)
	seen := make(map[string]bool)
	look := func() {
		t.Helper()
		for _, content := range b.objects {
			if seen[etag(content)] {
				t.Errorf("the ETag of %q came twice", content)
			}
			seen[etag(content)] = true
		}
	}
	for revision := range int64(3) {
		o := sealed(t, f, revision+1)
		look()
		for range 3 {
			if err := o.Write(t.Context(), []byte("the same")); err != nil {
				t.Fatal(err)
			}
			look()
		}
	}
}

// Two Objects of one token, as after a Seal that was called again, take turns.
func TestI6_NoETagComesTwiceFromTwoObjects(t *testing.T) {
	f, b := newFence(t)
	first, second := sealed(t, f, 1), sealed(t, f, 1)
	seen := make(map[string]bool)
	for i, o := range []*objectfence.Object{first, first, first, second, second, first} {
		if err := o.Write(t.Context(), []byte("the same")); err != nil {
			t.Fatal(err)
		}
		for _, content := range b.objects {
			if seen[etag(content)] {
				t.Errorf("write %d: the ETag of %q came twice", i, content)
			}
			seen[etag(content)] = true
		}
	}
}

func TestStatuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		answer  any
		want    error
		outcome cas.Outcome
		holds   string // afterwards, and the owner knows it
	}{
		{"409", http.StatusConflict, objectfence.ErrConflict, cas.NotApplied, "before"},
		{"500", http.StatusInternalServerError, cas.ErrUncertain, cas.Uncertain, "before"},
		{"503", http.StatusServiceUnavailable, cas.ErrUncertain, cas.Uncertain, "before"},
		{"403", http.StatusForbidden, cas.ErrUncertain, cas.Uncertain, "before"},
		{"request lost", errRequestLost, cas.ErrUncertain, cas.Uncertain, "before"},
		{"reply lost", errReplyLost, cas.ErrUncertain, cas.Uncertain, "after"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, b := newFence(t)
			o := sealed(t, f, 1)
			if err := o.Write(t.Context(), []byte("before")); err != nil {
				t.Fatal(err)
			}
			b.answers(test.answer)
			err := o.Write(t.Context(), []byte("after"))
			if !errors.Is(err, test.want) || cas.OutcomeOf(err) != test.outcome {
				t.Errorf("got %v (%s), want %v (%s)", err, cas.OutcomeOf(err), test.want, test.outcome)
			}
			if again := sealed(t, f, 1); string(again.Body()) != test.holds {
				t.Errorf("the object holds %q, want %q", again.Body(), test.holds)
			}
			if err := o.Write(t.Context(), []byte("next")); err != nil {
				t.Errorf("the next write: %v", err)
			}
			if again := sealed(t, f, 1); string(again.Body()) != "next" {
				t.Errorf("the object holds %q, want next", again.Body())
			}
		})
	}
}

// 412 alone does not say who was first: a seal, or this owner itself.
func TestPreconditionFailed(t *testing.T) {
	f, b := newFence(t)
	o := sealed(t, f, 1)
	b.answers(errRequestLost)
	if err := o.Write(t.Context(), []byte("late")); !errors.Is(err, cas.ErrUncertain) {
		t.Fatal(err)
	}
	b.answers() // the next Write looks, and finds nothing; then the lost one arrives before it
	b.script = append(b.script, func() (int, bool, error) {
		b.late[0]()
		return http.StatusPreconditionFailed, false, nil
	})
	if err := o.Write(t.Context(), []byte("on top")); err != nil {
		t.Errorf("got %v, want it written on top of the late one", err)
	}
	if again := sealed(t, f, 1); string(again.Body()) != "on top" {
		t.Errorf("the object holds %q", again.Body())
	}

	// A late one that arrives after a seal matches nothing.
	b.late = nil
	b.answers(errRequestLost)
	_ = o.Write(t.Context(), []byte("too late"))
	next := sealed(t, f, 2)
	b.late[0]()
	if err := next.Write(t.Context(), []byte("second")); err != nil {
		t.Errorf("the new owner: %v", err)
	}
	if again := sealed(t, f, 2); string(again.Body()) != "second" {
		t.Errorf("the object holds %q", again.Body())
	}

	// 412 again and again without a reason.
	for range 10 {
		b.answers(http.StatusPreconditionFailed)
	}
	if err := next.Write(t.Context(), nil); !errors.Is(err, objectfence.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	b.script = nil
	// Told that it is not first, and then nothing.
	b.answers(http.StatusPreconditionFailed)
	b.noGet = errors.New("no answer")
	if err := next.Write(t.Context(), nil); !errors.Is(err, b.noGet) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s)", err, cas.OutcomeOf(err))
	}
	b.noGet = nil
	if err := next.Write(t.Context(), []byte("third")); err != nil {
		t.Error(err)
	}
}

func TestObjectIsGoneOrForeign(t *testing.T) {
	f, b := newFence(t)
	o := sealed(t, f, 2)
	key := fmt.Sprintf("tenure/accounts/%05d", 7)
	old := b.objects[key]
	delete(b.objects, key)
	if err := o.Write(t.Context(), nil); !errors.Is(err, fence.ErrNotSealed) {
		t.Errorf("deleted: got %v, want ErrNotSealed", err)
	}
	b.objects[key] = bytes.Replace(old, []byte(fmt.Sprint(int64(fencetest.Token(2).Epoch))), []byte(fmt.Sprint(int64(fencetest.Token(1).Epoch))), 1)
	if err := o.Write(t.Context(), nil); !errors.Is(err, fence.ErrNotSealed) {
		t.Errorf("restored to an older one: got %v, want ErrNotSealed", err)
	}
	for _, content := range []string{"no line", "no JSON\n", `{"format":2}` + "\n"} {
		b.objects[key] = []byte(content)
		if _, err := f.Seal(t.Context(), fencetest.Token(3)); err == nil || cas.OutcomeOf(err) != cas.NotApplied || string(b.objects[key]) != content {
			t.Errorf("over %q: got %v (%s), want it refused and left alone", content, err, cas.OutcomeOf(err))
		}
	}
}

func TestSealTriesAgain(t *testing.T) {
	f, b := newFence(t)
	b.answers(http.StatusConflict, http.StatusPreconditionFailed, http.StatusNotFound)
	sealed(t, f, 1)
	for i, lost := range []any{errRequestLost, errReplyLost, http.StatusInternalServerError} {
		next := int64(i) + 2
		b.answers(lost)
		if _, err := f.Seal(t.Context(), fencetest.Token(next)); !errors.Is(err, cas.ErrUncertain) {
			t.Errorf("%v: got %v, want it uncertain", lost, err)
		}
		sealed(t, f, next)
	}
	for range 1000 {
		b.answers(http.StatusPreconditionFailed)
	}
	before := b.puts
	if _, err := f.Seal(t.Context(), fencetest.Token(9)); err == nil || b.puts-before > 500 {
		t.Errorf("got %v after %d tries, want an end to it", err, b.puts-before)
	}
	if _, err := objectfence.New(nil, objectfence.Config{}); err == nil {
		t.Error("New without a bucket: got nil")
	}
}
