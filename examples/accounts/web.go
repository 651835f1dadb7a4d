package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
)

// web is the service over HTTP.
type web struct {
	ledger *ledger
}

// order is the body of a deposit or withdrawal.
type order struct {
	OperationID string `json:"operation_id"` // chosen by the client, the same again on every retry
	Amount      int64  `json:"amount"`       // above 0, in the smallest unit of the currency
}

// answer is the body of every 200.
type answer struct {
	Balance int64 `json:"balance"`
}

// routes are what the server on the public port serves. Probes are among them: a process whose server does not answer is not ready.
func (w web) routes(h *router.HTTP, node *owner.Node) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /readyz", router.Readyz(node))
	mux.Handle("GET /livez", router.Livez(node))
	mux.Handle("GET /accounts/{id}", h.Route(accountID, w.balance))
	mux.Handle("POST /accounts/{id}/deposits", h.Route(accountID, w.change(deposit)))
	mux.Handle("POST /accounts/{id}/withdrawals", h.Route(accountID, w.change(withdrawal)))
	return mux
}

// accountID is the key of a request.
func accountID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	return id, checkName("account_id", id)
}

// change runs only at the account's owner, inside its tenure, as does balance.
func (w web) change(make func(account, operationID string, amount int64) (change, error)) func(http.ResponseWriter, *http.Request, *owner.Tenure) {
	return func(rw http.ResponseWriter, r *http.Request, t *owner.Tenure) {
		o, err := readOrder(rw, r)
		if err != nil {
			fail(rw, r, err)
			return
		}
		c, err := make(r.PathValue("id"), o.OperationID, o.Amount)
		if err != nil {
			fail(rw, r, err)
			return
		}
		receipt, err := w.ledger.writer.Do(r.Context(), t, c)
		if err != nil {
			fail(rw, r, err)
			return
		}
		reply(rw, receipt.balance)
	}
}

func (w web) balance(rw http.ResponseWriter, r *http.Request, t *owner.Tenure) {
	balance, err := w.ledger.balance(r.Context(), t, r.PathValue("id"))
	if err != nil {
		fail(rw, r, err)
		return
	}
	reply(rw, balance)
}

// What a client may send, and how long it may take. A hand-off waits for those who are inside, and this is read inside:
// a client that trickles must not hold up the shard.
const (
	longestBody = 4 << 10
	bodyTime    = 2 * time.Second
)

func readOrder(w http.ResponseWriter, r *http.Request) (o order, err error) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
		return o, fmt.Errorf("set a time limit on the body: %w", err)
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, longestBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&o); err != nil {
		return o, invalid(`the body is no order: %v; want {"operation_id": "…", "amount": 5}`, err)
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		return o, invalid("the body goes on after the order")
	}
	return o, nil
}

func reply(w http.ResponseWriter, balance int64) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{balance}) // a client that has gone asks again, under the same operation_id
}

// fail answers what is the client's affair, and leaves what says "try again" or "uncertain" to the library.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	if no, ok := errors.AsType[*refusal](err); ok {
		http.Error(w, no.text, no.status)
		return
	}
	router.WriteError(w, r, err)
}
