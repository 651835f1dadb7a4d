package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/router/kafka"
)

// Memory is believed only while the tenure stands.
func TestAccountOfAReplacedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{}
		cl := ownertest.Start(t, 2, group, func(ctx context.Context, t *owner.Tenure) error {
			s.books.Store(t, &book{accounts: map[string]account{"ann": {Orders: 1}}})
			t.Ready()
			<-ctx.Done()
			return nil
		}, owner.Config{})
		old := cl.Tenure("ann")
		if a, known, err := s.account(old, "ann"); a.Orders != 1 || !known || err != nil {
			t.Errorf("of the owner: got %v, %t, %v", a, known, err)
		}
		if _, known, err := s.account(old, "bob"); known || err != nil {
			t.Errorf("a customer without records: got %t, %v", known, err)
		}
		cl.Move("ann", 1-cl.Owner("ann"))
		if a, known, err := s.account(old, "ann"); a != (account{}) || known || cas.OutcomeOf(err) != cas.NotApplied || err == nil {
			t.Errorf("of the owner before: got %v, %t, %v; want an error, after which it may be tried again", a, known, err)
		}
		s.books.Delete(old)
		if _, _, err := s.account(old, "ann"); cas.OutcomeOf(err) != cas.NotApplied || err == nil {
			t.Errorf("after its handler has returned: got %v, want an error, after which it may be tried again", err)
		}
	})
}

// A record that can't be read is named, so that it does not hold up what came before it.
func TestUnderstand(t *testing.T) {
	good := &kgo.Record{Key: []byte("ann"), Value: []byte(`{"id":"o-1","number":1,"cents":5}`)}
	customers, events, err := understand([]*kgo.Record{good, good})
	if diff := cmp.Diff([]string{"ann", "ann"}, customers); diff != "" || len(events) != 2 || err != nil {
		t.Errorf("got %v, %v, %v", customers, events, err)
	}
	spoilt := &kgo.Record{Key: []byte("ann"), Offset: 1, Value: []byte(`{`)}
	_, _, err = understand([]*kgo.Record{good, spoilt})
	if bad, ok := errors.AsType[*kafka.BadRecordError](err); !ok || bad.Record != spoilt {
		t.Errorf("got %v, want that the second is bad", err)
	}
}
