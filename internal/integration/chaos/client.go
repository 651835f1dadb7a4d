package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// client sends operations and knows what to think of the answers. Safe for concurrent use.
type client struct {
	http     *http.Client
	patience time.Duration // of one request
}

func newClient(patience time.Duration) *client {
	return &client{patience: patience, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second},
	}}
}

// send carries o to a node, once, and fills in what became of it. A POST is never repeated by the transport, save if
// nothing of it was sent.
func (c *client) send(ctx context.Context, to *member, o *op) {
	a, outcome, err := c.try(ctx, to, o)
	o.Outcome, o.Value, o.Node, o.Epoch = outcome, a.Value, a.Node, a.Epoch
	if err != nil {
		o.Err = err.Error()
	}
}

func (c *client) try(ctx context.Context, to *member, o *op) (a answer, outcome string, err error) {
	_, address := to.at()
	if address == "" {
		return a, fail, errors.New("the node does not listen")
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	body, err := json.Marshal(order{ID: o.ID, Kind: o.Kind, Arg: o.Arg})
	if err != nil {
		return a, fail, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/registers/"+o.Key, bytes.NewReader(body))
	if err != nil {
		return a, fail, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		if failed, is := errors.AsType[*net.OpError](err); is && failed.Op == "dial" {
			return a, fail, err
		}
		return a, uncertain, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	switch {
	case err != nil:
		return a, uncertain, err
	case res.StatusCode == http.StatusOK:
		if err := json.Unmarshal(text, &a); err != nil {
			return a, uncertain, fmt.Errorf("answer %q: %w", text, err)
		}
		return a, ok, nil
	case res.Header.Get("Tenure-Outcome") == "not-applied":
		outcome = fail
	default:
		outcome = uncertain
	}
	return a, outcome, fmt.Errorf("via %s: %s: %s", to.id, res.Status, bytes.TrimSpace(text))
}

func (c *client) close() { c.http.CloseIdleConnections() }
