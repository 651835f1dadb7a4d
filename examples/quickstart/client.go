package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// definite reports that a request certainly was not applied: a node said so, or none was reached.
func definite(err error) bool {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.definite
	}
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, errNoNode) || ok && op.Op == "dial"
}

var errNoNode = errors.New("no node is ready")

// client sends orders to the bank. Safe for concurrent use.
type client struct {
	cluster *cluster
	ledger  *ledger
	http    *http.Client
	ops     atomic.Int64
}

// patience of one request: above what nodes wait for an owner, so that their answer comes first.
const patience = 8 * time.Second

func newClient(c *cluster, l *ledger) *client {
	return &client{cluster: c, ledger: l, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second},
	}}
}

// op makes up an operation's id. It is chosen once, before the first try.
func (c *client) op(kind string) string { return fmt.Sprintf("%s-%d", kind, c.ops.Add(1)) }

// longest is how long an order may take with all its tries. Much less than that is normal, whatever breaks.
const longest = 40 * time.Second

var errLongest = fmt.Errorf("not acknowledged within %v", longest)

// insist sends an order until it is acknowledged, to any node, always under the same op. That makes it safe to send
// again also what may have been applied. The error is errPoor, or what ended it: ctx, or that it took too long.
func (c *client) insist(ctx context.Context, account string, o order) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errLongest)
	defer cancel()
	for {
		a, err := c.try(ctx, c.cluster.pick(), account, o)
		if err == nil || errors.Is(err, errPoor) {
			return a, err
		}
		pause := time.NewTimer(5*time.Millisecond + rand.N(10*time.Millisecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return answer{}, fmt.Errorf("operation %s on %s: %w, after %w", o.Op, account, context.Cause(ctx), err)
		}
	}
}

// try sends an order once, and keeps the books.
func (c *client) try(ctx context.Context, to *process, account string, o order) (answer, error) {
	c.ledger.open.Add(1)
	calm := c.ledger.calm.Load()
	if !calm {
		c.ledger.open.Add(-1)
	}
	a, err := c.send(ctx, to, account, o)
	switch {
	case err == nil:
		c.ledger.acknowledge(entry{o.Op, account, o.Amount})
	case !errors.Is(err, errPoor) && ctx.Err() == nil:
		c.ledger.fault(err, calm)
	}
	if calm {
		c.ledger.open.Add(-1)
	}
	return a, err
}

// refusedError: a node answered, but not with success.
type refusedError struct {
	node     string
	status   int
	definite bool // and it was not applied
	text     string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%s answered %d: %s", e.node, e.status, e.text)
}

func (c *client) send(ctx context.Context, to *process, account string, o order) (answer, error) {
	if to == nil {
		return answer{}, errNoNode
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	verb := "deposits"
	if o.Amount < 0 {
		verb, o.Amount = "withdrawals", -o.Amount
	}
	body, err := json.Marshal(o)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+to.address+"/accounts/"+account+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", to.id, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", to.id, err)
	}
	switch res.StatusCode {
	case http.StatusOK:
		var a answer
		if err := json.Unmarshal(text, &a); err != nil {
			return answer{}, fmt.Errorf("%s: %w", to.id, err)
		}
		return a, nil
	case http.StatusUnprocessableEntity:
		return answer{}, errPoor
	}
	return answer{}, &refusedError{
		node: to.id, status: res.StatusCode, text: string(bytes.TrimSpace(text)),
		definite: res.Header.Get("Tenure-Outcome") == "not-applied",
	}
}
