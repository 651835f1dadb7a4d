package provider_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/examples/internal/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, c provider.Config) (*provider.Provider, provider.Client) {
	t.Helper()
	p := provider.New(c)
	url, stop, err := p.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return p, provider.Client{URL: url, Name: "test", HTTP: &http.Client{Transport: transport, Timeout: 100 * time.Millisecond}}
}

func TestOneKeyIsOneCharge(t *testing.T) {
	p, client := start(t, provider.Config{})
	rent := provider.Payment{ID: "rent", Account: "alice", Amount: 100}
	first, err := client.Charge(t.Context(), "k", rent)
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.Charge(t.Context(), "k", rent)
	if err != nil || again != first {
		t.Errorf("again: got %s, %v, want %s", again, err, first)
	}
	rent.Amount++
	if _, err := client.Charge(t.Context(), "k", rent); !declined(err, 422) {
		t.Errorf("the key for another amount: got %v, want 422", err)
	}
	if other, err := client.Charge(t.Context(), "", rent); err != nil || other == first {
		t.Errorf("without a key: got %s, %v, want another charge", other, err)
	}
	if got, n := p.Charges("rent"), p.Total(); len(got) != 2 || n != 2 || got[0].By != "test" {
		t.Errorf("got %d charges, %+v, want 2", n, got)
	}
	if _, err := client.Charge(t.Context(), "l", provider.Payment{ID: "x"}); !declined(err, 400) {
		t.Errorf("no amount: got %v, want 400", err)
	}
}

func declined(err error, status int) bool {
	d, ok := errors.AsType[*provider.DeclinedError](err)
	return ok && d.Status == status
}

// TestFaults: every request comes to harm, so the client never hears of a charge, and without a key each new try makes one
// more. With a key there is one at most.
func TestFaults(t *testing.T) {
	const tries = 20
	p, client := start(t, provider.Config{Faults: 1, Seed: 1})
	for range tries {
		if _, err := client.Charge(t.Context(), "", provider.Payment{ID: "no key", Amount: 1}); err == nil {
			t.Fatal("a reply, want none")
		}
	}
	for range tries {
		_, _ = client.Charge(t.Context(), "k", provider.Payment{ID: "key", Amount: 1})
	}
	f := p.Figures()
	if f.Refused == 0 || f.Cut == 0 || f.Lost == 0 || f.Hung == 0 || f.Known == 0 {
		t.Errorf("got %+v, want each fault", f)
	}
	if n := len(p.Charges("no key")); n < 2 {
		t.Errorf("%d charges without a key, want several", n)
	}
	if n := len(p.Charges("key")); n != 1 {
		t.Errorf("%d charges under one key, want 1", n)
	}
}
