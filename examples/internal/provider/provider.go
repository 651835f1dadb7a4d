// Package provider is a payment provider for examples: a third party that no transaction spans and no fence reaches. It is
// unreliable as a network makes everybody: requests get lost on the way to it and replies on the way back, and now and then
// it does not answer at all. But it keeps one promise: two requests under one Idempotency-Key are one charge.
package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Payment is what is asked for.
type Payment struct {
	ID      string `json:"payment"`
	Account string `json:"account"`
	Amount  int64  `json:"amount"` // in cents
}

// Charge is money taken.
type Charge struct {
	Payment
	Charge string `json:"charge"` // its own id
	By     string `json:"-"`      // the client's User-Agent
}

// Config configures a Provider. The zero value is one that is quick and answers always.
type Config struct {
	Seed    uint64        // of its faults
	Faults  float64       // the share of requests that come to harm, 0 to 1
	Slow    time.Duration // the most that it takes before it charges, and again before it replies
	Charged func(Charge)  // is told of each charge when it is made; must not block. Defaults to nothing
}

// Figures count requests.
type Figures struct {
	Requests int // that arrived
	Known    int // whose key was known, so that they got the charge that was there
	Refused  int // that got 503, nothing charged
	Cut      int // whose connection was cut before anything was charged
	Lost     int // charged or known, and the reply was lost
	Hung     int // charged or known, and no reply was sent until the client gave up
}

// Provider is an http.Handler. Make it with New; safe for concurrent use.
type Provider struct {
	c Config

	mu      sync.Mutex // guards the rest
	rng     *rand.Rand
	keys    map[string]Charge
	charges map[string][]Charge // by payment
	made    int
	figures Figures
}

// New returns a provider that has charged nothing.
func New(c Config) *Provider {
	if c.Charged == nil {
		c.Charged = func(Charge) {}
	}
	return &Provider{
		c: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), keys: make(map[string]Charge), charges: make(map[string][]Charge),
	}
}

// Listen serves p at a free port of this machine, until stop is called, which cuts off what is under way.
func (p *Provider) Listen() (url string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("provider: %w", err)
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return "http://" + l.Addr().String(), func() error {
		err := server.Close()
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}, nil
}

// Charges are those of a payment.
func (p *Provider) Charges(payment string) []Charge {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges[payment]
}

// Total is how many charges were made.
func (p *Provider) Total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// Figures are those so far.
func (p *Provider) Figures() Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.figures
}

// fault is what befalls a request.
type fault int

const (
	none fault = iota
	refused
	cut
	lost
	hung
)

// ServeHTTP takes a Payment as JSON and answers with the Charge.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked Payment
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&asked); err != nil || asked.ID == "" || asked.Amount <= 0 {
		http.Error(w, "want a payment as JSON, with an id and an amount", http.StatusBadRequest)
		return
	}
	f, before, after := p.draw()
	wait(r, before)
	switch f {
	case refused:
		http.Error(w, "busy, try again", http.StatusServiceUnavailable)
		return
	case cut:
		panic(http.ErrAbortHandler) // how a handler of net/http cuts the connection
	}
	c, err := p.charge(asked, r.Header.Get("Idempotency-Key"), r.UserAgent())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	wait(r, after)
	switch f {
	case lost:
		panic(http.ErrAbortHandler)
	case hung:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c) // one that does not arrive is one more lost reply
}

// draw decides what becomes of a request.
func (p *Provider) draw() (f fault, before, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rng.Float64() < p.c.Faults {
		f = refused + fault(p.rng.IntN(int(hung)))
	}
	if p.c.Slow > 0 {
		before, after = time.Duration(p.rng.Int64N(int64(p.c.Slow))), time.Duration(p.rng.Int64N(int64(p.c.Slow)))
	}
	p.figures.Requests++
	switch f {
	case refused:
		p.figures.Refused++
	case cut:
		p.figures.Cut++
	case lost:
		p.figures.Lost++
	case hung:
		p.figures.Hung++
	}
	return f, before, after
}

// charge happens at one instant, whether or not the client is still there.
func (p *Provider) charge(asked Payment, key, by string) (Charge, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, known := p.keys[key]; known {
		if c.Payment != asked {
			return c, fmt.Errorf("the key was used for payment %s", c.ID)
		}
		p.figures.Known++
		return c, nil
	}
	p.made++
	c := Charge{Payment: asked, Charge: fmt.Sprintf("ch-%04d", p.made), By: by}
	if key != "" {
		p.keys[key] = c
	}
	p.charges[asked.ID] = append(p.charges[asked.ID], c)
	p.c.Charged(c)
	return c, nil
}

// wait takes that long, or until the client has gone away: a slow provider goes on without it.
func wait(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
