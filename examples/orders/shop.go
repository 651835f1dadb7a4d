package main

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router/kafka"
)

// shop is a node's part of the service: it has the accounts of the shards that are owned here.
type shop struct {
	node     string
	db       *database
	orders   *kafka.Consumer
	payments *kafka.Consumer
	consume  owner.Handler // both
	books    sync.Map      // *book by *owner.Tenure, while it is served
}

// newShop makes a consumer for each topic. Both are of one group, so partition i of both is consumed by the owner of shard i.
func newShop(ctx context.Context, node string, db *database, r role, c kafka.ConsumerConfig) (*shop, error) {
	s := &shop{node: node, db: db}
	var err error
	if s.orders, err = kafka.NewConsumer(ctx, r.Group, r.Topics.Orders, s.open(orders), c); err != nil {
		return nil, err
	}
	if s.payments, err = kafka.NewConsumer(ctx, r.Group, r.Topics.Payments, s.open(payments), c); err != nil {
		return nil, errors.Join(err, s.orders.Close())
	}
	s.consume = kafka.Together(s.orders, s.payments)
	return s, nil
}

// close is for when the node has stopped.
func (s *shop) close() error { return errors.Join(s.orders.Close(), s.payments.Close()) }

// serve is the node's handler, once for each tenure: it seals, loads the shard's accounts, and consumes both partitions.
func (s *shop) serve(ctx context.Context, t *owner.Tenure) error {
	if err := s.db.fences.Seal(ctx, t.Token()); err != nil {
		return err
	}
	accounts, err := s.db.accounts(ctx, t.Token().Shard)
	if err != nil {
		return err
	}
	s.books.Store(t, &book{accounts: accounts})
	defer s.books.Delete(t)
	return s.consume(ctx, t)
}

// open says for one of the topics where a shard goes on, and how: entries, accounts and position are one transaction. Memory
// follows once that is committed, so no question is answered with what might be undone.
func (s *shop) open(k kind) kafka.Open {
	return func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
		b, err := s.book(t)
		if err != nil {
			return kafka.Partition{}, err
		}
		tok, stream := t.Token(), kafka.Stream(ctx)
		from, err := s.db.fences.Position(ctx, tok, stream)
		return kafka.Partition{
			From: from,
			Process: func(ctx context.Context, recs []*kgo.Record) error {
				customers, events, err := understand(recs)
				if err != nil {
					return err
				}
				err = s.db.fences.Tx(ctx, tok, func(tx *sql.Tx) error {
					if err := s.db.write(ctx, tx, tok, k, recs, events); err != nil {
						return err // not applied: tried again, then with fewer records, until a bad one stands alone
					}
					return s.db.fences.Advance(ctx, tx, tok, stream, kafka.Next(recs))
				})
				if err != nil {
					return err
				}
				b.add(k, customers, events)
				return nil
			},
			Advance: func(ctx context.Context, next int64) error {
				return s.db.fences.Tx(ctx, tok, func(tx *sql.Tx) error {
					return s.db.fences.Advance(ctx, tx, tok, stream, next)
				})
			},
		}, err
	}
}

// understand reads records. One that can't be read never will be: it is said to be bad, rather than tried again.
func understand(recs []*kgo.Record) (customers []string, events []event, err error) {
	for _, r := range recs {
		e, err := parseEvent(r.Value)
		if err != nil {
			return nil, nil, kafka.Bad(r, err)
		}
		customers, events = append(customers, string(r.Key)), append(events, e)
	}
	return customers, events, nil
}

func (s *shop) book(t *owner.Tenure) (*book, error) {
	if b, ok := s.books.Load(t); ok {
		return b.(*book), nil
	}
	return nil, &unreadError{errors.New("the tenure's handler has returned")}
}

// account is what t's owner has of a customer.
//
// From memory, so the process may have been stopped on the way while another took over. Hence the look at the tenure
// after the fact: by the clock nobody else owned the account until then.
func (s *shop) account(t *owner.Tenure, customer string) (a account, known bool, err error) {
	b, err := s.book(t)
	if err != nil {
		return account{}, false, err
	}
	a, known = b.account(customer)
	if err := t.Err(); err != nil {
		return account{}, false, &unreadError{err}
	}
	return a, known, nil
}

// unreadError: an account could not be read. Nothing was done, so it may be tried again.
type unreadError struct{ err error }

func (e *unreadError) Error() string        { return "orders: read an account: " + e.err.Error() }
func (e *unreadError) Unwrap() error        { return e.err }
func (e *unreadError) Outcome() cas.Outcome { return cas.NotApplied }
