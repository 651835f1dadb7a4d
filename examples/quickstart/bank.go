package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // registers the driver

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// schema: an account points to the entry that changed it last, and each entry to the one before, as
// commits do. What can't be reached from the account is not in its balance. op has no UNIQUE index on
// purpose: it would be a second fence, and hide what happens without the first. To keep operations
// unique is the owner's business, who is alone.
const schema = `
CREATE TABLE accounts (id TEXT PRIMARY KEY, shard INTEGER NOT NULL, balance INTEGER NOT NULL, last INTEGER NOT NULL);
CREATE INDEX accounts_shard ON accounts (shard);
CREATE TABLE entries (n INTEGER PRIMARY KEY, op TEXT NOT NULL, account TEXT NOT NULL, amount INTEGER NOT NULL,
	prev INTEGER NOT NULL, shard INTEGER NOT NULL, epoch INTEGER NOT NULL, node TEXT NOT NULL);
CREATE INDEX entries_op ON entries (op);`

// openDB opens the bank's database. Not synchronous: a process that dies loses nothing that the operating
// system has, and this program pulls no plugs.
func openDB(ctx context.Context, path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	u.RawQuery = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	// Connect now: the first hand-off is no time for it.
	for range connections {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
		}
		defer conn.Close()
	}
	return db, nil
}

const connections = 4

// order is what a client asks of an account.
type order struct {
	Op     string `json:"op"`     // chosen by the client, the same on every try
	Amount int64  `json:"amount"` // negative: withdraw
	Pause  bool   `json:"pause"`  // stop this process between decision and write: the zombie's order
}

// answer says what became of an order.
type answer struct {
	Balance int64       `json:"balance"` // after it; of a repeated one, now
	Node    string      `json:"node"`    // who owns the account's shard
	Epoch   shard.Epoch `json:"epoch"`   // and under which epoch
}

// What a bank says no to. Nothing was written.
var (
	errPoor      = errors.New("bank: not enough money in the account")
	errNoAccount = errors.New("bank: no such account")
)

// bank serves accounts. Its zero value is invalid; see serveNode.
type bank struct {
	node   string
	db     *sql.DB
	turns  *turns
	fences *fence.SQL
	fenced bool
	desks  sync.Map // *owner.Tenure to *desk, while its handler runs
	tell   func(event)
}

// desk is the one goroutine that moves money in a shard, for one tenure. What it has in memory is true as long as it
// is alone; the fence sees to it that it can't write once it isn't.
type desk struct {
	*bank
	token    shard.Token
	accounts map[string]account
	orders   chan request // unbuffered: what is taken is answered
}

type account struct {
	balance int64
	last    int64 // entries.n of the last change
}

type request struct {
	account string
	order
	reply chan<- reply // has room for one
}

type reply struct {
	answer
	err error
}

// serve is the owner.Handler: seal, load, be ready, work.
func (b *bank) serve(ctx context.Context, t *owner.Tenure) error {
	if err := b.turns.take(ctx, func() error { return b.fences.Seal(ctx, t.Token()) }); err != nil {
		return err
	}
	accounts, err := b.load(ctx, t.Token().Shard)
	if err != nil {
		return err
	}
	d := &desk{bank: b, token: t.Token(), accounts: accounts, orders: make(chan request)}
	b.desks.Store(t, d)
	defer b.desks.Delete(t)
	t.Ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-d.orders:
			a, err := d.carryOut(ctx, r)
			r.reply <- reply{a, err}
			if err != nil && !errors.Is(err, errPoor) && !errors.Is(err, errNoAccount) {
				return err // memory and database may differ now: let the next tenure load again
			}
		}
	}
}

func (b *bank) load(ctx context.Context, shard int) (map[string]account, error) {
	rows, err := b.db.QueryContext(ctx, "SELECT id, balance, last FROM accounts WHERE shard = ?", shard)
	if err != nil {
		return nil, fmt.Errorf("load shard %d: %w", shard, err)
	}
	defer rows.Close()
	accounts := make(map[string]account)
	for rows.Next() {
		var id string
		var a account
		if err := rows.Scan(&id, &a.balance, &a.last); err != nil {
			return nil, fmt.Errorf("load shard %d: %w", shard, err)
		}
		accounts[id] = a
	}
	return accounts, rows.Err()
}

// carryOut applies an order once, however often it comes: its owner looks for it first, and nobody else can
// write between the look and the write.
func (d *desk) carryOut(ctx context.Context, r request) (answer, error) {
	now, ok := d.accounts[r.account]
	if !ok {
		return answer{}, errNoAccount
	}
	var known bool
	err := d.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM entries WHERE op = ?)", r.Op).Scan(&known)
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("look for operation %s: %w", r.Op, err)
	case known:
		return answer{now.balance, d.node, d.token.Epoch}, nil
	case now.balance+r.Amount < 0:
		return answer{}, errPoor
	}
	if r.Pause {
		if err := d.fallAsleep(ctx); err != nil {
			return answer{}, err
		}
	}
	next, err := d.book(ctx, r, now)
	if err != nil {
		return answer{}, err
	}
	d.accounts[r.account] = next
	return answer{next.balance, d.node, d.token.Epoch}, nil
}

// book writes what was decided, whatever has happened to the tenure since: only the fence can know whether that may
// still be. The balance is written as a whole, so a stale one would wipe out what others did meanwhile.
func (d *desk) book(ctx context.Context, r request, now account) (account, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	next := account{balance: now.balance + r.Amount}
	statements := 0
	write := func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "INSERT INTO entries (op, account, amount, prev, shard, epoch, node) VALUES (?, ?, ?, ?, ?, ?, ?)",
			r.Op, r.account, r.Amount, now.last, d.token.Shard, int64(d.token.Epoch), d.node)
		if err != nil {
			return err
		}
		statements++
		if next.last, err = res.LastInsertId(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE accounts SET balance = ?, last = ? WHERE id = ?", next.balance, next.last, r.account)
		if err != nil {
			return err
		}
		statements++
		return nil
	}
	err := d.turns.take(ctx, func() error { return d.tx(ctx, write) })
	d.reportStale(r, statements, err)
	return next, err
}

// tx is fence.SQL.Tx, or what people write who have none.
func (d *desk) tx(ctx context.Context, fn func(*sql.Tx) error) error {
	if d.fenced {
		return d.fences.Tx(ctx, d.token, fn)
	}
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// deposit and withdraw are the HTTP handlers. They run only in the owner of the account's shard.
func (b *bank) deposit(w http.ResponseWriter, r *http.Request, t *owner.Tenure) { b.handle(w, r, t, 1) }

func (b *bank) withdraw(w http.ResponseWriter, r *http.Request, t *owner.Tenure) {
	b.handle(w, r, t, -1)
}

func (b *bank) handle(w http.ResponseWriter, r *http.Request, t *owner.Tenure, sign int64) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Op == "" || o.Amount <= 0 {
		http.Error(w, "want an op and an amount above 0", http.StatusBadRequest)
		return
	}
	o.Amount *= sign
	a, err := b.submit(r.Context(), t, r.PathValue("id"), o)
	switch {
	case errors.Is(err, errPoor):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case errors.Is(err, errNoAccount):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		router.WriteError(w, r, err)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a) // a client that has gone asks again
	}
}

// submit gives an order to the tenure's desk. ctx ends with the tenure's loss.
func (b *bank) submit(ctx context.Context, t *owner.Tenure, account string, o order) (answer, error) {
	d, ok := b.desks.Load(t)
	if !ok {
		return answer{}, &owner.LostError{Token: t.Token(), Reason: "its handler has returned"}
	}
	done := make(chan reply, 1)
	select {
	case d.(*desk).orders <- request{account, o, done}:
		r := <-done
		return r.answer, r.err
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}
