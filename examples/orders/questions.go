package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// act is a part of the story, as far as questions are concerned.
type act string

const (
	calm    act = "in between"
	leaving act = "while one left"
	killed  act = "from the kill until all was served again"
	joining act = "while one came back"
)

// tally is how questions fared in an act.
type tally struct {
	answered int
	putOff   int           // 503 with Retry-After: no owner could be reached, and nothing was done
	broken   int           // no answer came, or another
	slowest  time.Duration // that was answered
	last     error
}

// desk asks the nodes, as clients of the service do. Safe for concurrent use.
type desk struct {
	http *http.Client

	mu      sync.Mutex // guards the fields below
	nodes   []string   // addresses that a load balancer would send to
	turn    int
	act     act
	tallies map[act]tally
	stale   int // answers with fewer records than one before: none may be
}

// patience is above what nodes wait for an owner, so that their answer comes first.
const patience = 8 * time.Second

func newDesk() *desk {
	return &desk{
		http: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		act:  calm, tallies: make(map[act]tally),
	}
}

func (d *desk) add(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = append(d.nodes, address)
}

func (d *desk) remove(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = slices.DeleteFunc(slices.Clone(d.nodes), func(a string) bool { return a == address })
}

// begin changes the act.
func (d *desk) begin(a act) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.act = a
}

func (d *desk) tally(a act) tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tallies[a]
}

// pick is a node, each in turn, and the act.
func (d *desk) pick() (address string, now act) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn++
	return d.nodes[d.turn%len(d.nodes)], d.act
}

var (
	errUnknown = errors.New("the customer is not known")
	errPutOff  = errors.New("no owner could be reached, and nothing was done")
)

// get asks whichever node's turn it is.
func (d *desk) get(ctx context.Context, path string, answer any) (asked act, err error) {
	address, asked := d.pick()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return asked, err
	}
	res, err := d.http.Do(req)
	if err != nil {
		return asked, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	switch {
	case err != nil:
		return asked, err
	case res.StatusCode == http.StatusNotFound:
		return asked, errUnknown
	case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Tenure-Outcome") == "not-applied":
		return asked, errPutOff
	case res.StatusCode != http.StatusOK:
		return asked, fmt.Errorf("%s answered %d: %.200s", address, res.StatusCode, text)
	}
	return asked, json.Unmarshal(text, answer)
}

// ask asks for customers, one after another, until ctx ends. Nobody else may ask for these.
func (d *desk) ask(ctx context.Context, customers []string) {
	seen := make(map[string]account)
	for i := 0; ; i++ {
		rest := time.NewTimer(8 * time.Millisecond)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
		customer := customers[i%len(customers)]
		var s statement
		began := time.Now()
		asked, err := d.get(ctx, "/customers/"+customer, &s)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errUnknown) {
			err = nil
		}
		before := seen[customer]
		d.note(asked, time.Since(began), err, err == nil && (s.Orders < before.Orders || s.Payments < before.Payments))
		if err == nil {
			seen[customer] = s.account
		}
	}
}

// note counts a question where it was asked. One that failed after the kill, and was asked before, failed for the kill.
func (d *desk) note(asked act, took time.Duration, err error, stale bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && d.act == killed {
		asked = killed
	}
	t := d.tallies[asked]
	switch {
	case err == nil:
		t.answered++
		t.slowest = max(t.slowest, took)
	case errors.Is(err, errPutOff):
		t.putOff++
	default:
		t.broken++
	}
	if err != nil {
		t.last = err
	}
	if stale {
		d.stale++
	}
	d.tallies[asked] = t
}

// lag asks for the lag, of all owners.
func (d *desk) lag(ctx context.Context) (lagAnswer, error) {
	var a lagAnswer
	_, err := d.get(ctx, "/lag", &a)
	return a, err
}

// all asks for every customer once, and fails if one is not answered.
func (d *desk) all(ctx context.Context, customers []string) (map[string]statement, error) {
	answers := make(map[string]statement)
	for _, c := range customers {
		var s statement
		_, err := d.get(ctx, "/customers/"+c, &s)
		if err == nil {
			answers[c] = s
		} else if !errors.Is(err, errUnknown) {
			return nil, fmt.Errorf("ask for %s: %w", c, err)
		}
	}
	return answers, nil
}
