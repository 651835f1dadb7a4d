package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/cas/memkv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client that sends its deposit slowly holds up nobody, and one that is no deposit is refused.
func TestDepositIsReadBeforeTx(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := memkv.New()
	defer store.Close()
	db := openBank(ctx, filepath.Join(t.TempDir(), "bank.db"))
	defer db.Close()
	run, leave := context.WithCancel(ctx)
	addr, done := freeAddr(), make(chan error, 1)
	go func() { done <- serve(run, store, db, addr, addr) }()
	defer func() {
		leave()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	defer http.DefaultClient.CloseIdleConnections()
	for !paid(ctx, addr, "alice") {
		select {
		case <-ctx.Done():
			t.Fatal("no deposit in a minute")
		case <-time.After(50 * time.Millisecond):
		}
	}

	slow, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	// It is admitted when it is told to go on: the handler reads the body.
	fmt.Fprint(slow, "POST /accounts/alice/deposits HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
		"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n")
	in := bufio.NewReader(slow)
	if line, err := in.ReadString('\n'); !strings.Contains(line, "100 Continue") {
		t.Fatalf("got %q %v, want 100 Continue", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if !paid(ctx, addr, "bob") {
		t.Error("bob's deposit was not made while alice's is slow")
	}
	if took := time.Since(began); took > 4*time.Second { // the database waits for a lock for 5
		t.Errorf("bob's deposit took %v, want it not to wait for alice's", took)
	}
	io.WriteString(slow, "amount=10")
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Errorf("slow deposit: got %s, want 200", res.Status)
	}

	for _, amount := range []string{"", "x", "-3", "1e9"} {
		res, err := http.Post("http://"+addr+"/accounts/carol/deposits?amount="+amount, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("amount %q: got %s, want 400", amount, res.Status)
		}
	}
	var balances string
	if err := db.QueryRowContext(ctx, "SELECT group_concat(id || balance) FROM account").Scan(&balances); err != nil {
		t.Fatal(err)
	}
	if want := "alice20,bob10,carol0,dave0"; balances != want {
		t.Errorf("balances: got %s, want %s", balances, want)
	}
}
