package idem

import (
	"bytes"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"
)

// inMemory is how much of a request body is held in memory; more goes to a file.
const inMemory = 1 << 20

// spooled is a request body that was read whole, so that its fingerprint is known before the handler runs. The
// handler reads it again.
type spooled struct {
	io.Closer // the body's own
	digest    []byte
	head      bytes.Buffer     // what is in memory
	limit     io.LimitedReader // of what is read into head
	file      *os.File         // all of it; nil if it fits into memory
}

var errBodyTooLarge = errors.New("idem: the request's body is too large")

// spool reads r's body and puts itself in its place.
func spool(r *http.Request, most int64) (*spooled, error) {
	sum := newFingerprint()
	if r.Body == nil || r.Body == http.NoBody {
		return &spooled{digest: sum.Sum(nil)}, nil
	}
	if r.ContentLength > most {
		return nil, errBodyTooLarge
	}
	s := &spooled{Closer: r.Body, limit: io.LimitedReader{R: r.Body, N: min(inMemory, most) + 1}}
	if err := s.fill(r.Body, r.ContentLength, most, sum); err != nil {
		s.remove()
		return nil, err
	}
	s.digest = sum.Sum(nil)
	r.Body = s
	return s, nil
}

// fill reads the body into memory, or what is more than that into a file.
func (s *spooled) fill(body io.Reader, length, most int64, sum hash.Hash) error {
	if length > 0 {
		s.head.Grow(int(min(length, inMemory)) + bytes.MinRead) // so that ReadFrom need not grow it
	}
	n, err := s.head.ReadFrom(&s.limit)
	if err != nil {
		return err
	}
	_, _ = sum.Write(s.head.Bytes())
	if n > most {
		return errBodyTooLarge
	}
	if n <= inMemory {
		return nil
	}
	if s.file, err = os.CreateTemp("", "tenure-idem-*"); err != nil {
		return &spoolError{err}
	}
	_ = os.Remove(s.file.Name()) // where a file may be removed while it is open, a crash leaves none behind
	if _, err = s.head.WriteTo(s.file); err != nil {
		return &spoolError{err}
	}
	s.head = bytes.Buffer{}
	rest := &counted{r: io.LimitReader(body, most-n+1)}
	if _, err = io.Copy(io.MultiWriter(s.file, sum), rest); err != nil {
		if rest.err != nil {
			return rest.err
		}
		return &spoolError{err}
	}
	if n+rest.n > most {
		return errBodyTooLarge
	}
	if _, err = s.file.Seek(0, io.SeekStart); err != nil {
		return &spoolError{err}
	}
	return nil
}

func (s *spooled) Read(p []byte) (int, error) {
	if s.file != nil {
		return s.file.Read(p)
	}
	return s.head.Read(p)
}

// remove ends the use of the body.
func (s *spooled) remove() {
	if s.file != nil {
		_ = s.file.Close() // it was only read
		_ = os.Remove(s.file.Name())
	}
}

// fingerprint is of all that makes two requests with one key the same.
func (s *spooled) fingerprint(r *http.Request) []byte {
	return Fingerprint(
		[]byte("http/1"), []byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery),
		[]byte(strings.Join(r.Header["Content-Type"], "\n")), s.digest,
	)
}

// counted tells a reader's own error from a writer's.
type counted struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// spoolError is this machine's fault, not the client's.
type spoolError struct{ err error }

func (e *spoolError) Error() string { return "idem: keeping the request's body: " + e.err.Error() }
func (e *spoolError) Unwrap() error { return e.err }
