package router

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that waits for 100 Continue sends nothing if the owner says no before it reads.
func TestUploadThatTheOwnerRefuses(t *testing.T) {
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not yours", http.StatusForbidden)
	})
	conn, err := net.Dial("tcp", gw.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /k HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("got %s, want the owner's 403 and no 100 Continue before it", res.Status)
	}
}

// However long an upload is, it passes through: the owner has its first bytes while the client has yet to make the last.
func TestUploadStreams(t *testing.T) {
	const size = 16 << 20
	got := make(chan struct{})
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 1<<10)
		if _, err := io.ReadFull(r.Body, first); err != nil {
			t.Error(err)
		}
		close(got)
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n+int64(len(first)), err, r.ContentLength)
	})
	in, out := io.Pipe()
	go func() {
		chunk := make([]byte, 64<<10)
		out.Write(chunk)
		select {
		case <-got:
		case <-time.After(10 * time.Second):
			t.Error("the owner had nothing of the body 10s after it began")
		}
		for n := len(chunk); n < size; n += len(chunk) {
			if _, err := out.Write(chunk); err != nil {
				t.Error(err)
				break
			}
		}
		out.Close()
	}()
	r := request(t, "PUT", gw.URL+"/k", in)
	r.ContentLength = size
	if a := do(t, r); a.Body != fmt.Sprint(size, nil, size) {
		t.Errorf("got %d %q, want all of %d bytes", a.Status, a.Body, size)
	}
}

// The client goes in the middle of an upload: the owner's read ends, with an error.
func TestUploadThatBreaksOff(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	gw := away(t, HTTPConfig{}, func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1<<10)
		close(began)
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	conn, err := net.Dial("tcp", gw.Address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /k HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n%s", strings.Repeat("x", 100<<10))
	<-began
	conn.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the owner took a part for the whole")
		}
	case <-time.After(10 * time.Second):
		t.Error("the owner still reads after 10s")
	}
}
