package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// load is clients who deposit and transfer until they are told to stop.
type load struct {
	client   *client
	accounts []string
	fail     context.CancelCauseFunc
	quit     chan struct{}
	quitting sync.Once
	done     sync.WaitGroup
}

// startLoad starts n clients. What they have begun when stop is called they finish, unless ctx ends. An order that
// can't be brought to its end is reported to fail.
func startLoad(ctx context.Context, n int, c *client, accounts []string, fail context.CancelCauseFunc) *load {
	l := &load{client: c, accounts: accounts, fail: fail, quit: make(chan struct{})}
	for range n {
		l.done.Go(func() { l.trade(ctx) })
	}
	return l
}

func (l *load) trade(ctx context.Context) {
	for {
		rest := time.NewTimer(10*time.Millisecond + rand.N(40*time.Millisecond))
		select {
		case <-rest.C:
		case <-l.quit:
			rest.Stop()
			return
		case <-ctx.Done():
			rest.Stop()
			return
		}
		from, to := l.accounts[rand.IntN(len(l.accounts))], l.accounts[rand.IntN(len(l.accounts))]
		amount := 1 + rand.Int64N(20)
		var err error
		if rand.IntN(2) == 0 {
			_, err = l.client.insist(ctx, to, order{Op: l.client.op("deposit"), Amount: amount})
		} else {
			err = l.transfer(ctx, from, to, amount)
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// transfer moves money between two accounts, whose shards may have two owners: two steps, each applied once.
// Between them the money is on its way. A client that may die in between would note the second step down first.
func (l *load) transfer(ctx context.Context, from, to string, amount int64) error {
	op := l.client.op("transfer")
	_, err := l.client.insist(ctx, from, order{Op: op + "-out", Amount: -amount})
	switch {
	case errors.Is(err, errPoor):
		return nil // nothing has happened
	case err != nil:
		return err
	}
	_, err = l.client.insist(ctx, to, order{Op: op + "-in", Amount: amount})
	return err
}

// stop waits until all clients have finished. Idempotent.
func (l *load) stop() {
	l.quitting.Do(func() { close(l.quit) })
	l.done.Wait()
}
