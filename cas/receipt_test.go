package cas_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// lose loses part of the nth commit that changes something, counted from 1.
func lose(s *memkv.Client, loss memkv.Loss, which ...int) {
	n := 0
	s.Intercept(func(c memkv.Call) memkv.Fate {
		if c.Kind != memkv.Commit || len(c.Txn.Then) == 0 {
			return memkv.Fate{}
		}
		n++
		for _, w := range which {
			if w == n {
				return memkv.Fate{Loss: loss}
			}
		}
		return memkv.Fate{}
	})
}

// A client whose first try was applied and its reply lost tries again with a payload made
// anew (a later timestamp). It must learn that it has succeeded, with the first payload.
func TestCase_cockroach127301_RetryRecognisesItsFirstTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		put(t, s, `{"balance":100}`)
		withdraw := func(label string) func(*account) error {
			return func(a *account) error {
				if a.Balance < 80 {
					return errors.New("insufficient funds")
				}
				a.Balance -= 80
				a.Log = append(a.Log, label)
				return nil
			}
		}
		op := cas.UpdateConfig{Receipt: "withdrawal-1"}

		lose(s, memkv.Reply, 1)
		got, err := cas.Update(t.Context(), s, "acct", withdraw("first"), op)
		if err != nil || got.Balance != 20 || got.Log[0] != "first" {
			t.Fatalf("lost reply: got %+v, %v, want it resolved as applied", got, err)
		}
		// In another process, later, when f would refuse and the key has changed.
		if _, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{}); err != nil {
			t.Fatal(err)
		}
		other := s.Server().Client()
		defer other.Close()
		got, err = cas.Update(t.Context(), other, "acct", withdraw("again"), op)
		if err != nil || got.Balance != 20 || got.Log[0] != "first" {
			t.Errorf("again: got %+v, %v, want what the first try stored", got, err)
		}
		if b := balance(t, s); b != 21 {
			t.Errorf("got balance %d, want 21", b)
		}
	})
}

// An automatic retry of a write whose reply was lost must not apply it twice; and the caller
// must see that the outcome is unknown unless a receipt resolves it.
func TestCase_etcd14890_LostReplyAppliesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		lose(s, memkv.Reply, 1)
		_, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{})
		if !errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain {
			t.Errorf("without a receipt: got error %v, outcome %q", err, cas.OutcomeOf(err))
		}
		lose(s, memkv.Reply, 1)
		if got, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{Receipt: "op"}); err != nil || got.Balance != 2 {
			t.Errorf("with a receipt: got %+v, %v", got, err)
		}
		if got := balance(t, s); got != 2 {
			t.Errorf("got balance %d, want 2", got)
		}
	})
}

func TestUpdateTriesAnewAfterALostRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		lose(s, memkv.Request, 1, 3) // a try, and another after the first was closed
		got, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{Receipt: "op"})
		if err != nil || got.Balance != 1 || balance(t, s) != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// The try that looked lost is only late. Once its receipt is closed it must never apply.
func TestUpdateShutsOutALateTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		late := s.Server().Client()
		defer late.Close()
		put(t, s, `{"balance":1}`)

		// The first try travels for an hour; its caller gives up after a second.
		late.Intercept(func(c memkv.Call) memkv.Fate {
			if len(c.Txn.Then) > 0 {
				return memkv.Fate{Delay: time.Hour}
			}
			return memkv.Fate{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		op := cas.UpdateConfig{Receipt: "op"}
		_, err := cas.Update(ctx, late, "acct", add(10), op)
		if !errors.Is(err, cas.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got error %v, want uncertain because of the deadline", err)
		}

		outcome, err := cas.Resolve(t.Context(), s, "acct", "op")
		if err != nil || outcome != cas.NotApplied {
			t.Fatalf("resolve: got %q, %v", outcome, err)
		}
		time.Sleep(2 * time.Hour) // virtual: the late try arrives
		if got := balance(t, s); got != 1 {
			t.Errorf("got balance %d, want 1: the late try was applied after it was resolved", got)
		}
		got, err := cas.Update(t.Context(), s, "acct", add(10), op)
		if err != nil || got.Balance != 11 {
			t.Errorf("a new try with the same receipt: got %+v, %v", got, err)
		}
		if outcome, err := cas.Resolve(t.Context(), s, "acct", "op"); err != nil || outcome != cas.Applied {
			t.Errorf("resolve: got %q, %v", outcome, err)
		}
	})
}

// A try that saw an aborted receipt may be late as well.
func TestResolveShutsOutATryAfterAnAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		if outcome, err := cas.Resolve(t.Context(), s, "acct", "op"); err != nil || outcome != cas.NotApplied {
			t.Fatalf("resolve: got %q, %v", outcome, err)
		}
		late := s.Server().Client()
		defer late.Close()
		late.Intercept(func(c memkv.Call) memkv.Fate {
			if len(c.Txn.Then) > 0 {
				return memkv.Fate{Delay: time.Hour}
			}
			return memkv.Fate{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cas.Update(ctx, late, "acct", add(1), cas.UpdateConfig{Receipt: "op"}); !errors.Is(err, cas.ErrUncertain) {
			t.Fatalf("got error %v, want uncertain", err)
		}
		if outcome, err := cas.Resolve(t.Context(), s, "acct", "op"); err != nil || outcome != cas.NotApplied {
			t.Fatalf("resolve again: got %q, %v", outcome, err)
		}
		time.Sleep(2 * time.Hour) // virtual
		if got := balance(t, s); got != 0 {
			t.Errorf("got balance %d, want 0", got)
		}
	})
}

func TestUpdateIsUncertainWhileTheStoreStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		away := false
		s.Intercept(func(c memkv.Call) memkv.Fate {
			if away {
				return memkv.Fate{Loss: memkv.Connection}
			}
			if len(c.Txn.Then) > 0 {
				away = true
				return memkv.Fate{Loss: memkv.Reply}
			}
			return memkv.Fate{}
		})
		op := cas.UpdateConfig{Receipt: "op", Tries: 3}
		_, err := cas.Update(t.Context(), s, "acct", add(1), op)
		// The receipt could not be asked, because that was not even sent. The update's own
		// outcome is what counts.
		if !errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain {
			t.Errorf("got error %v, outcome %q", err, cas.OutcomeOf(err))
		}
		s.Intercept(nil)
		if got, err := cas.Update(t.Context(), s, "acct", add(1), op); err != nil || got.Balance != 1 {
			t.Errorf("once it is back: got %+v, %v", got, err)
		}
	})
}

// Whatever combination of replies and requests is lost, an operation with a receipt is
// applied at most once, and its caller is told the truth.
func TestReceiptUnderEveryLoss(t *testing.T) {
	const depth = 5
	for plan := range 1 << (2 * depth) {
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			n := 0
			s.Intercept(func(c memkv.Call) memkv.Fate {
				if c.Kind != memkv.Commit || len(c.Txn.Then) == 0 || n >= depth {
					return memkv.Fate{}
				}
				loss := memkv.Loss(plan >> (2 * n) & 3)
				n++
				return memkv.Fate{Loss: loss}
			})
			op := cas.UpdateConfig{Receipt: "op", Tries: 2}
			_, err := cas.Update(t.Context(), s, "acct", add(1), op)
			s.Intercept(nil)
			got := balance(t, s)
			switch cas.OutcomeOf(err) {
			case cas.Applied:
				if got != 1 {
					t.Errorf("plan %x: said applied, and the balance is %d", plan, got)
				}
			case cas.NotApplied:
				if got != 0 {
					t.Errorf("plan %x: said not applied (%v), and the balance is %d", plan, err, got)
				}
			}
			if v, err := cas.Update(t.Context(), s, "acct", add(1), op); err != nil || v.Balance != 1 || balance(t, s) != 1 {
				t.Errorf("plan %x: the second call got %+v, %v, and the balance is %d", plan, v, err, balance(t, s))
			}
		})
	}
}

func TestReceiptFormat(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	if _, err := cas.Update(t.Context(), s, "acct", add(7), cas.UpdateConfig{Receipt: "op"}); err != nil {
		t.Fatal(err)
	}
	e, err := s.Get(t.Context(), "/tenure-receipts/acct/op")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Format int
		State  string
		At     time.Time
		Value  account
	}
	if err := json.Unmarshal(e.Value, &got); err != nil {
		t.Fatalf("%v: %s", err, e.Value)
	}
	if got.Format != 1 || got.State != "applied" || got.Value.Balance != 7 || time.Since(got.At) > time.Hour {
		t.Errorf("got %s", e.Value)
	}
	if main, err := s.Get(t.Context(), "acct"); err != nil || main.Rev != e.Rev {
		t.Errorf("value at %d, receipt at %d, %v, want one transaction", main.Rev, e.Rev, err)
	}
}

func TestUnreadableReceiptIsNoLicence(t *testing.T) {
	for _, value := range []string{"nonsense", `{"format":2,"state":"done"}`} {
		s := memkv.New()
		defer s.Close()
		_, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put(cas.ReceiptKey("acct", "op"), []byte(value))}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{Receipt: "op"})
		if err == nil || cas.OutcomeOf(err) != cas.Uncertain || balance(t, s) != 0 {
			t.Errorf("receipt %s: got error %v, outcome %q, balance %d", value, err, cas.OutcomeOf(err), balance(t, s))
		}
		if outcome, err := cas.Resolve(t.Context(), s, "acct", "op"); err == nil || outcome != cas.Uncertain {
			t.Errorf("receipt %s: resolved as %q, %v", value, outcome, err)
		}
	}
}

func TestOneReceiptUsedByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		results := make(chan string)
		const callers = 10
		for i := range callers {
			go func() {
				s := server.Client()
				defer s.Close()
				lose(s, memkv.Loss(i%4), 1)
				v, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
					a.Balance++
					a.Log = append(a.Log, fmt.Sprint(i))
					return nil
				}, cas.UpdateConfig{Receipt: "op", Tries: 50})
				results <- fmt.Sprint(v, err)
			}()
		}
		first := <-results
		for range callers - 1 {
			if r := <-results; r != first {
				t.Errorf("two callers got %s and %s", first, r)
			}
		}
		s := server.Client()
		defer s.Close()
		if got := balance(t, s); got != 1 {
			t.Errorf("got balance %d, want 1", got)
		}
	})
}
