package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// books is what the database holds in the end.
type books struct {
	heads   map[string]account // by ID
	entries map[int64]stored   // by entries.n
	stale   int                // entries committed under an epoch below one that their shard had seen before
}

type stored struct {
	entry
	prev int64
}

// audit is what is wrong with the books.
type audit struct {
	lost, twice int
	stale       int      // entries that an owner wrote when another had written after it
	faults      []string // what must never be, fence or not
	money       int64
	deposited   int64
}

// auditBank reads the database and compares it with what clients were told. Nothing else may use the database any more.
func auditBank(ctx context.Context, path string, acked []entry) (audit, error) {
	db, err := openDB(ctx, path)
	if err != nil {
		return audit{}, fmt.Errorf("audit: %w", err)
	}
	defer db.Close()
	b, err := readBooks(ctx, db)
	if err != nil {
		return audit{}, fmt.Errorf("audit: %w", err)
	}
	return b.audit(acked), nil
}

func readBooks(ctx context.Context, db *sql.DB) (books, error) {
	b := books{heads: make(map[string]account), entries: make(map[int64]stored)}
	accounts, err := db.QueryContext(ctx, "SELECT id, balance, last FROM accounts")
	if err != nil {
		return b, err
	}
	defer accounts.Close()
	for accounts.Next() {
		var id string
		var a account
		if err := accounts.Scan(&id, &a.balance, &a.last); err != nil {
			return b, err
		}
		b.heads[id] = a
	}
	if err := accounts.Err(); err != nil {
		return b, err
	}
	entries, err := db.QueryContext(ctx, "SELECT n, op, account, amount, prev, shard, epoch FROM entries ORDER BY n")
	if err != nil {
		return b, err
	}
	defer entries.Close()
	newest := make(map[int]int64)
	for entries.Next() {
		var n, epoch int64
		var shard int
		var e stored
		if err := entries.Scan(&n, &e.op, &e.account, &e.amount, &e.prev, &shard, &epoch); err != nil {
			return b, err
		}
		b.entries[n] = e
		if epoch < newest[shard] {
			b.stale++
		}
		newest[shard] = max(newest[shard], epoch)
	}
	return b, entries.Err()
}

// audit walks each account from its last entry to the first. What it meets is what the balance holds: an acknowledged
// operation that it does not meet is lost, one that it meets again was applied twice.
func (b books) audit(acked []entry) audit {
	a := audit{stale: b.stale}
	held := make(map[string]int) // by operation
	for id, head := range b.heads {
		sum := int64(opening)
		for n := head.last; n != 0; {
			e, ok := b.entries[n]
			if !ok || e.account != id || e.prev >= n {
				a.faults = append(a.faults, fmt.Sprintf("%s: entry %d is not one of its own", id, n))
				break
			}
			sum += e.amount
			held[e.op]++
			n = e.prev
		}
		if sum != head.balance {
			a.faults = append(a.faults, fmt.Sprintf("%s: balance %d, and its entries add up to %d", id, head.balance, sum))
		}
		a.money += head.balance
	}
	for _, times := range held {
		a.twice += max(0, times-1)
	}
	for _, e := range acked {
		if held[e.op] == 0 {
			a.lost++
		}
		a.deposited += e.amount
	}
	return a
}

// close stops everything, reads the books and says how it went.
func (s *story) close(ctx context.Context) (summary, error) {
	s.load.stop()
	if err := ctx.Err(); err != nil {
		return summary{}, context.Cause(ctx)
	}
	// What was acknowledged is in the database, so nobody needs to be asked to finish.
	s.cluster.close()
	s.report.say("the clients stop, and every node is killed; now the books")
	checking, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	a, err := auditBank(checking, s.dbPath, s.ledger.acked)
	if err != nil {
		return summary{}, err
	}
	s.audit = a
	sum := summary{
		Nodes: founders + 1, Shards: s.shards,
		Acknowledged: len(s.ledger.acked), Lost: a.lost, AppliedTwice: a.twice,
		FailedCalm: s.ledger.failed,
		Gap:        spreadOf(s.gaps.list()), CrashServed: millis(s.toServed), CrashExpired: millis(s.expired),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.stales {
		sum.StaleAttempted += w.Attempted
		sum.StaleRefused += w.Refused
	}
	return sum, nil
}
