package main

import "sync"

// book is a shard's accounts in memory, as its owner has them for one tenure: those of the database, read after the seal, and what was
// committed since.
type book struct {
	mu       sync.RWMutex // guards accounts, for moments: nothing is waited for under it
	accounts map[string]account
}

// add takes what was committed.
func (b *book) add(k kind, customers []string, events []event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range customers {
		b.accounts[c] = b.accounts[c].with(k, events[i])
	}
}

func (b *book) account(customer string) (account, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	a, ok := b.accounts[customer]
	return a, ok
}
