package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// The tables are made when the program starts. A runnable program with a database is the Example in
// internal/integration/sqltest.
func ExampleSQL_Tx() {
	handler := func(db *sql.DB) (owner.Handler, error) {
		fences, err := fence.NewSQL(db, fence.Postgres, fence.SQLConfig{})
		if err != nil {
			return nil, err
		}
		if err := fences.Install(context.Background()); err != nil {
			return nil, err
		}
		return func(ctx context.Context, t *owner.Tenure) error {
			if err := fences.Seal(ctx, t.Token()); err != nil { // before the first read
				return err
			}
			t.Ready()
			return fences.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 1 WHERE id = $1", 17)
				return err
			})
		}, nil
	}
	_ = handler
}

// A test needs no cluster: a token is a literal, and the one before it is stale.
func ExampleGate() {
	at := func(revision int64) shard.Token {
		epoch, err := shard.NewEpoch(1, revision)
		if err != nil {
			panic(err)
		}
		return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: epoch}
	}
	var gate fence.Gate
	balance := 0
	deposit := func(tok shard.Token) error {
		return gate.Do(tok, func() error { balance++; return nil })
	}

	ctx := context.Background()
	fmt.Println(gate.Seal(ctx, at(41)), deposit(at(41)))
	fmt.Println(gate.Seal(ctx, at(57)), deposit(at(57)))

	err := deposit(at(41)) // a pause has ended
	if fenced, ok := errors.AsType[*fence.FencedError](err); ok {
		fmt.Println("stale:", fenced.Mine, "is behind", fenced.Current)
	}
	fmt.Println(errors.Is(deposit(at(60)), fence.ErrNotSealed))
	fmt.Println("balance:", balance)
	// Output:
	// <nil> <nil>
	// <nil> <nil>
	// stale: 1:41 is behind 1:57
	// true
	// balance: 2
}

// A server of your own, and a client that carries its owner's token to it.
func ExampleFromHeader() {
	var gate fence.Gate
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tok, err := fence.FromHeader(r.Header)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.Method == "SEAL" {
			err = gate.Seal(r.Context(), tok)
		} else {
			err = gate.Do(tok, func() error { return nil })
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	}))
	defer server.Close()
	send := func(method string, revision int64) {
		r, err := http.NewRequest(method, server.URL, nil)
		if err != nil {
			panic(err)
		}
		fence.SetHeader(r.Header, shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: 1<<48 | shard.Epoch(revision)})
		response, err := server.Client().Do(r)
		if err != nil {
			panic(err)
		}
		_ = response.Body.Close()
		fmt.Println(method, revision, response.Status)
	}
	send("SEAL", 41)
	send("POST", 41)
	send("SEAL", 57)
	send("POST", 41)
	send("POST", 57)
	// Output:
	// SEAL 41 200 OK
	// POST 41 200 OK
	// SEAL 57 200 OK
	// POST 41 409 Conflict
	// POST 57 200 OK
}
