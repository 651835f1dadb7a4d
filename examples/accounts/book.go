package main

import "sync"

// book is what an owner has in memory of its shard: the balances of accounts that were asked for since its tenure
// began, as they are stored. It is true for as long as nobody else writes, and the fence sees to it that
// a book which is not true any more can't be written from. Safe for concurrent use.
type book struct {
	mu       sync.Mutex // guards the rest; held for a look or a change, never over I/O
	balances map[string]int64
	watched  map[string]chan struct{} // closed at the account's next change
}

func newBook() *book {
	return &book{balances: make(map[string]int64), watched: make(map[string]chan struct{})}
}

func (b *book) balance(account string) (balance int64, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	balance, known = b.balances[account]
	return balance, known
}

// learn notes what was read from the database. What is known already is as new, or newer.
func (b *book) learn(balances map[string]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for account, balance := range balances {
		if _, known := b.balances[account]; !known {
			b.balances[account] = balance
		}
	}
}

// turn notes what was committed, and wakes those who watch.
func (b *book) turn(balances map[string]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for account, balance := range balances {
		b.balances[account] = balance
		if changed := b.watched[account]; changed != nil {
			close(changed)
			delete(b.watched, account)
		}
	}
}

// next is closed at the account's next change after the call: take it, look, then wait.
func (b *book) next(account string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := b.watched[account]
	if changed == nil {
		changed = make(chan struct{})
		b.watched[account] = changed
	}
	return changed
}
