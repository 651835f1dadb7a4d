package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// echo answers each line with itself until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadBytes('\n')
					if err != nil {
						return
					}
					if _, err := c.Write(line); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// A cut holds what is sent, in the direction that it is of, without a sign of it. Healed, it delivers or breaks.
func TestWireFallsSilent(t *testing.T) {
	for name, c := range map[string]struct {
		cut  direction
		lose bool
	}{
		"nothing":              {},
		"requests, late":       {requests, false},
		"replies, late":        {replies, false},
		"both, late":           {both, false},
		"both, lost":           {both, true},
		"replies, lost":        {replies, true},
		"nothing to be broken": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := newWire(echo(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.close)
			conn, err := net.Dial("tcp", w.address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			answers := bufio.NewReader(conn)
			ask := func(word string, patience time.Duration) error {
				if _, err := conn.Write([]byte(word + "\n")); err != nil {
					return err
				}
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				_, err := answers.ReadString('\n')
				return err
			}
			if err := ask("hello", 10*time.Second); err != nil {
				t.Fatal(err)
			}
			w.sever(c.cut)
			if c.cut != 0 {
				if err := ask("anybody", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("got %v, want silence", err)
				}
			}
			w.heal(c.lose)
			err = ask("again", 10*time.Second)
			if broken := err != nil; broken != (c.lose && c.cut != 0) {
				t.Errorf("after it was healed: %v", err)
			}
		})
	}
}
