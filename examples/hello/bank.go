package main

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

var Accounts = shard.Group{Name: "accounts", Shards: 64}

const credit = `INSERT INTO account (id, balance) VALUES (?, ?)
	ON CONFLICT (id) DO UPDATE SET balance = account.balance + excluded.balance`

// listen is as in net.Listen, ":8080"; advertise is what peers reach, "10.0.0.7:8080".
func serve(ctx context.Context, store cas.Store, db *sql.DB, listen, advertise string) error {
	log := slog.Default() // the default is silence
	fences := must(fence.NewSQL(db, fence.SQLite, fence.SQLConfig{}))
	node := must(owner.New(store, Accounts, fences.Serve, owner.Config{Address: advertise, Logger: log}))
	table := must(router.Open(ctx, store, Accounts, log))
	defer table.Close()
	web := must(router.NewHTTP(table, node, router.HTTPConfig{Logger: log}))

	deposit := func(w http.ResponseWriter, r *http.Request, t *owner.Tenure) {
		amount, err := strconv.Atoi(r.FormValue("amount")) // reads the body: not in Tx
		if err != nil || amount <= 0 {
			http.Error(w, "amount: want a whole number above 0", http.StatusBadRequest)
			return
		}
		router.WriteError(w, r, fences.Tx(r.Context(), t.Token(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(r.Context(), credit, r.PathValue("id"), amount)
			return err
		})) // nil: an empty 200
	}
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/deposits", web.Route(router.PathValue("id"), deposit))
	return router.Serve(ctx, node, router.ServeConfig{}, router.On(listen, &http.Server{Handler: mux}))
}
