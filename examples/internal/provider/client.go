package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Client is a provider's client. URL and HTTP are required; HTTP needs a timeout.
type Client struct {
	URL  string
	Name string // sent as User-Agent
	HTTP *http.Client
}

// DeclinedError: the provider will not make this charge, however often it is asked.
type DeclinedError struct {
	Status int
	Reason string
}

func (e *DeclinedError) Error() string {
	return fmt.Sprintf("provider: declined with status %d: %s", e.Status, e.Reason)
}

// Charge takes money and returns the charge's id. After an error that is no *DeclinedError it may have been taken all the same:
// ask again, under the same key. Without a key (which is a mistake that examples make to show what comes of it) there is no
// way to ask.
func (c Client) Charge(ctx context.Context, key string, p Payment) (string, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", c.Name)
	if key != "" {
		r.Header.Set("Idempotency-Key", key) // by which net/http, too, takes the liberty of sending it again
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return "", fmt.Errorf("provider: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case err != nil:
		return "", fmt.Errorf("provider: read the reply: %w", err)
	case resp.StatusCode >= 500:
		return "", fmt.Errorf("provider: status %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	case resp.StatusCode != http.StatusOK:
		return "", &DeclinedError{resp.StatusCode, string(bytes.TrimSpace(text))}
	}
	var made Charge
	if err := json.Unmarshal(text, &made); err != nil {
		return "", fmt.Errorf("provider: read the reply: %w", err)
	}
	return made.Charge, nil
}
