package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// accounts are those that clients trade with, and one for each shard that only the story itself uses.
type accounts struct {
	traded []string
	probes []string // by shard
}

func openAccounts(g shard.Group) accounts {
	a := accounts{probes: make([]string, g.Shards)}
	for i := range 3 * g.Shards {
		a.traded = append(a.traded, fmt.Sprintf("account-%d", i))
	}
	for i, left := 0, g.Shards; left > 0; i++ {
		id := fmt.Sprintf("probe-%d", i)
		if s := g.Of(id); a.probes[s] == "" {
			a.probes[s] = id
			left--
		}
	}
	return a
}

func (a accounts) all() []string { return slices.Concat(a.traded, a.probes) }

// opening is what each account begins with.
const opening = 1000

// createBank makes the database: accounts, and the fence's tables.
func createBank(ctx context.Context, path string, g shard.Group, accounts []string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create the bank: %w", err)
		}
	}()
	db, err := openDB(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	fences, err := fence.NewSQL(db, fence.SQLite, fence.SQLConfig{})
	if err != nil {
		return err
	}
	if err := fences.Install(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, id := range accounts {
		if _, err := tx.ExecContext(ctx, "INSERT INTO accounts (id, shard, balance, last) VALUES (?, ?, ?, 0)", id, g.Of(id), opening); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}
