package main

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

// ask sends a request and returns status and body.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(b))
}

func orderBody(op string, amount int64) string {
	return fmt.Sprintf(`{"operation_id": %q, "amount": %d}`, op, amount)
}

// Any node takes any request, and what one has applied all others know, however often it is sent.
func TestWeb_AnyNodeOnce(t *testing.T) {
	w := newTown(t, 3)
	sum := make(map[string]int64)
	for i := range 12 {
		account := fmt.Sprintf("account-%d", i%4)
		op := fmt.Sprintf("op-%d", i)
		sum[account] += int64(i + 1)
		for _, n := range w.nodes { // the same operation, through each
			status, body := ask(t, "POST", n.http+"/accounts/"+account+"/deposits", orderBody(op, int64(i+1)))
			if want := fmt.Sprintf(`{"balance":%d}`, sum[account]); status != 200 || body != want {
				t.Errorf("deposit %s: got %d %s, want 200 %s", op, status, body, want)
			}
		}
	}
	for account, want := range sum {
		for _, n := range w.nodes {
			if status, body := ask(t, "GET", n.http+"/accounts/"+account, ""); status != 200 || body != fmt.Sprintf(`{"balance":%d}`, want) {
				t.Errorf("%s: got %d %s, want 200 and balance %d", account, status, body, want)
			}
		}
	}
}

// What is the client's affair is answered as such, wherever it arrives, and changes nothing.
func TestWeb_Refusals(t *testing.T) {
	w := newTown(t, 2)
	ask(t, "POST", w.nodes[0].http+"/accounts/alice/deposits", orderBody("first", 100))
	for _, c := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"more than there is", "POST", "/accounts/alice/withdrawals", orderBody("a", 101), 422},
		{"from nothing", "POST", "/accounts/nobody/withdrawals", orderBody("b", 1), 422},
		{"too rich", "POST", "/accounts/alice/deposits", orderBody("c", most), 422},
		{"operation for another amount", "POST", "/accounts/alice/deposits", orderBody("first", 99), 409},
		{"operation for another direction", "POST", "/accounts/alice/withdrawals", orderBody("first", 100), 409},
		{"no such account", "GET", "/accounts/nobody", "", 404},
		{"nothing", "POST", "/accounts/alice/deposits", "", 400},
		{"no JSON", "POST", "/accounts/alice/deposits", "amount=5", 400},
		{"no operation", "POST", "/accounts/alice/deposits", `{"amount": 5}`, 400},
		{"strange operation", "POST", "/accounts/alice/deposits", orderBody("a b", 5), 400},
		{"zero", "POST", "/accounts/alice/deposits", orderBody("d", 0), 400},
		{"negative", "POST", "/accounts/alice/withdrawals", orderBody("e", -5), 400},
		{"no whole number", "POST", "/accounts/alice/deposits", `{"operation_id": "f", "amount": 1.5}`, 400},
		{"beyond what is safe", "POST", "/accounts/alice/deposits", orderBody("g", most+1), 400},
		{"unknown field", "POST", "/accounts/alice/deposits", `{"operation_id": "h", "amount": 5, "currency": "EUR"}`, 400},
		{"two orders", "POST", "/accounts/alice/deposits", orderBody("i", 5) + orderBody("j", 5), 400},
		{"too long", "POST", "/accounts/alice/deposits", strings.Repeat(" ", longestBody) + orderBody("k", 5), 400},
		{"strange account", "POST", "/accounts/al%20ice/deposits", orderBody("l", 5), 400},
		{"long account", "GET", "/accounts/" + strings.Repeat("a", longestName+1), "", 400},
		{"no such method", "DELETE", "/accounts/alice", "", 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range w.nodes {
				if got, body := ask(t, c.method, n.http+c.path, c.body); got != c.want {
					t.Errorf("got %d %s, want %d", got, body, c.want)
				}
			}
		})
	}
	if _, body := ask(t, "GET", w.nodes[1].http+"/accounts/alice", ""); body != `{"balance":100}` {
		t.Errorf("alice: got %s, want a balance of 100: refusals change nothing", body)
	}
}

// A client that trickles is given up on, before its body could hold up a hand-off for as long as others wait.
func TestWeb_SlowBody(t *testing.T) {
	n := newTown(t, 1).nodes[0]
	ask(t, "POST", n.http+"/accounts/alice/deposits", orderBody("first", 100)) // so that it is served
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	fmt.Fprint(conn, "POST /accounts/alice/deposits HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	_ = conn.SetReadDeadline(began.Add(time.Minute))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if took := time.Since(began); res.StatusCode != 400 || took > 5*time.Second {
		t.Errorf("got %s after %v, want 400 after some %v", res.Status, took, bodyTime)
	}
}

// Probes are public, the status page is not.
func TestWeb_ProbesAndDebug(t *testing.T) {
	n := newTown(t, 1).nodes[0]
	ask(t, "POST", n.http+"/accounts/alice/deposits", orderBody("first", 100)) // so that it has joined
	for url, want := range map[string]int{
		n.http + "/readyz": 200, n.http + "/livez": 200, n.http + "/debug": 404,
		n.debug + "/debug": 200, n.debug + "/debug?format=json": 200, n.debug + "/debug/pprof/": 200,
	} {
		if got, body := ask(t, "GET", url, ""); got != want {
			t.Errorf("%s: got %d %.200s, want %d", url, got, body, want)
		}
	}
}
