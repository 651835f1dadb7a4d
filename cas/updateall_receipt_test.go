package cas_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

func TestUpdateAllReceiptUnderEveryLoss(t *testing.T) {
	const depth = 5
	for plan := range 1 << (2 * depth) {
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			fund(t, s, 10, "a")
			n := 0
			s.Intercept(func(c memkv.Call) memkv.Fate { // of reads too: those without changes
				if c.Kind != memkv.Commit || n >= depth {
					return memkv.Fate{}
				}
				loss := memkv.Loss(plan >> (2 * n) & 3)
				n++
				return memkv.Fate{Loss: loss}
			})
			op := cas.UpdateConfig{Receipt: "op", Tries: 2}
			left, err := cas.UpdateAll(t.Context(), s, "transfer", transfer("a", "b", 4), op)
			s.Intercept(nil)
			got := balances(t, s, "a", "b")
			switch cas.OutcomeOf(err) {
			case cas.Applied:
				if left != 6 || got[0] != 6 || got[1] != 4 {
					t.Errorf("plan %x: said applied, %d, and the balances are %d", plan, left, got)
				}
			case cas.NotApplied:
				if got[0] != 10 || got[1] != 0 {
					t.Errorf("plan %x: said not applied (%v), and the balances are %d", plan, err, got)
				}
			}
			left, err = cas.UpdateAll(t.Context(), s, "transfer", transfer("a", "b", 4), op)
			if got := balances(t, s, "a", "b"); err != nil || left != 6 || got[0] != 6 || got[1] != 4 {
				t.Errorf("plan %x: the second call got %d, %v, and the balances are %d", plan, left, err, got)
			}
		})
	}
}

// What f would do now plays no part once the receipt says "applied".
func TestUpdateAllReceiptOutlivesItsFunction(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	fund(t, s, 10, "a")
	op := cas.UpdateConfig{Receipt: "op"}
	if _, err := cas.UpdateAll(t.Context(), s, "transfer", transfer("a", "b", 10), op); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(*cas.Draft) (int, error){
		"refuses, having read":   transfer("a", "b", 10),
		"refuses without a read": func(*cas.Draft) (int, error) { return 0, errPoor },
		"does nothing":           func(*cas.Draft) (int, error) { return 5, nil },
	} {
		var took cas.Effort
		op.Observe = func(e cas.Effort) { took = e }
		if left, err := cas.UpdateAll(t.Context(), s, "transfer", f, op); err != nil || left != 0 || took.Outcome != cas.Applied {
			t.Errorf("%s: got %d, %v, %+v, want what was stored", name, left, err, took)
		}
	}
	if outcome, err := cas.Resolve(t.Context(), s, "transfer", "op"); outcome != cas.Applied || err != nil {
		t.Errorf("resolve: got %q, %v", outcome, err)
	}
	if diff := cmp.Diff([]int{0, 10}, balances(t, s, "a", "b")); diff != "" {
		t.Error(diff)
	}
	// An operation of another name is another operation.
	if _, err := cas.UpdateAll(t.Context(), s, "refund", transfer("b", "a", 1), cas.UpdateConfig{Receipt: "op"}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]int{1, 9}, balances(t, s, "a", "b")); diff != "" {
		t.Error(diff)
	}
}

// Another process applies the operation between two reads of this one: what was read first is
// from before, and must not be committed on.
func TestUpdateAllSeesItsReceiptWithEachRead(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	fund(t, s, 10, "a", "c")
	op := cas.UpdateConfig{Receipt: "op"}
	runs := 0
	left, err := cas.UpdateAll(t.Context(), s, "transfer", func(d *cas.Draft) (int, error) {
		runs++
		if _, err := cas.Read[account](d, "c"); err != nil {
			return 0, err
		}
		if _, err := cas.UpdateAll(t.Context(), s, "transfer", transfer("a", "b", 4), op); err != nil {
			t.Error(err)
		}
		return transfer("a", "b", 4)(d)
	}, op)
	if err != nil || left != 6 || runs != 1 {
		t.Errorf("got %d, %v after %d runs, want what the other has stored", left, err, runs)
	}
	if diff := cmp.Diff([]int{6, 4}, balances(t, s, "a", "b")); diff != "" {
		t.Error(diff)
	}
}

func TestUpdateAllIsUncertainWithoutReceipt(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	fund(t, s, 10, "a")
	lose(s, memkv.Reply, 1)
	var took cas.Effort
	_, err := cas.UpdateAll(t.Context(), s, "transfer", transfer("a", "b", 4), cas.UpdateConfig{Observe: func(e cas.Effort) { took = e }})
	if !errors.Is(err, cas.ErrUncertain) || cas.OutcomeOf(err) != cas.Uncertain || took.Outcome != cas.Uncertain || took.Lost != 1 {
		t.Errorf("got %v, %+v", err, took)
	}
}

func TestUpdateSaysWhatItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		other := s.Server().Client()
		defer other.Close()
		var took cas.Effort
		op := cas.UpdateConfig{Receipt: "op", Observe: func(e cas.Effort) { took = e }}
		lose(s, memkv.Request, 2)
		runs := 0
		_, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
			if runs++; runs == 1 {
				put(t, other, `{}`)
			}
			return add(1)(a)
		}, op)
		want := cas.Effort{Name: "acct", Tries: 3, Conflicts: 1, Lost: 1, Took: took.Took, Outcome: cas.Applied}
		if err != nil || took != want {
			t.Errorf("got %v, %+v, want %+v", err, took, want)
		}
		if took.Took != 0 { // the first retries follow at once
			t.Errorf("took %v", took.Took)
		}
		s.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Delay: time.Second} })
		_, err = cas.Update(t.Context(), s, "acct", add(1), op)
		if want := (cas.Effort{Name: "acct", Took: time.Second, Outcome: cas.Applied}); err != nil || took != want {
			t.Errorf("told by the receipt: got %v, %+v, want %+v", err, took, want)
		}
	})
}

// A read that got no answer is tried again, as a commit is that was not sent.
func TestUpdateWaitsOutAnUnreachableStoreWhileReading(t *testing.T) {
	for _, receipt := range []string{"", "op"} {
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			left := 0
			s.Intercept(func(memkv.Call) memkv.Fate {
				if left--; left >= 0 {
					return memkv.Fate{Loss: memkv.Connection}
				}
				return memkv.Fate{}
			})
			left = 3
			if _, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{Receipt: receipt}); err != nil {
				t.Errorf("Update, receipt %q: %v", receipt, err)
			}
			left = 3
			if _, err := cas.UpdateAll(t.Context(), s, "x", transfer("acct", "b", 1), cas.UpdateConfig{Receipt: receipt}); err != nil {
				t.Errorf("UpdateAll, receipt %q: %v", receipt, err)
			}
			left = 3
			if _, err := cas.Resolve(t.Context(), s, "acct", "op2"); err != nil {
				t.Errorf("Resolve: %v", err)
			}
			left = 1000
			_, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{Receipt: receipt, Tries: 3})
			if !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied || left != 997 {
				t.Errorf("receipt %q: got %v after %d reads", receipt, err, 1000-left)
			}
		})
	}
}
