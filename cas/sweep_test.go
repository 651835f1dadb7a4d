package cas_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// receipts counts what lies under the prefix of receipts, but for the two dates.
func receipts(t *testing.T, s cas.KV) int {
	t.Helper()
	snap, err := s.List(t.Context(), cas.ReceiptPrefix)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range snap.Entries {
		if e.Key != cas.ReceiptPrefix+"horizon" && e.Key != cas.ReceiptPrefix+"swept" {
			n++
		}
	}
	return n
}

func sweep(t *testing.T, s cas.KV, age time.Duration) int {
	t.Helper()
	n, err := cas.Sweep(t.Context(), s, age)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inc applies an operation with a receipt.
func inc(t *testing.T, s cas.KV, id string) (account, error) {
	t.Helper()
	return cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{Receipt: id})
}

func TestSweepForgetsWhatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		// Over 100 days, so that periods of all lengths are looked through.
		var ids []string
		for i := range 100 {
			ids = append(ids, cas.Dated(time.Now(), fmt.Sprint(i)))
			if _, err := inc(t, s, ids[i]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(24*time.Hour + 61*time.Second) // virtual
		}
		if _, err := inc(t, s, "undated"); err != nil {
			t.Fatal(err)
		}
		weird := "@" + time.Now().Add(-time.Hour*24*50).UTC().Format("20060102T150405Z") + "/x"
		if _, err := cas.Update(t.Context(), s, weird, add(1), cas.UpdateConfig{Receipt: "undated"}); err != nil {
			t.Fatal(err)
		}
		if n := sweep(t, s, 240*time.Hour); n != 91 || receipts(t, s) != 9+2 {
			t.Errorf("deleted %d, left are %d, want 91 and 11", n, receipts(t, s))
		}
		if n := sweep(t, s, 240*time.Hour); n != 0 {
			t.Errorf("again: deleted %d", n)
		}
		time.Sleep(48 * time.Hour) // virtual
		if n := sweep(t, s, 240*time.Hour); n != 2 || receipts(t, s) != 7+2 {
			t.Errorf("two days later: deleted %d, left are %d, want 2 and 9", n, receipts(t, s))
		}
		before := balance(t, s)
		for i, id := range ids {
			_, err := inc(t, s, id)
			if expired := i < 93; expired != errors.Is(err, cas.ErrReceiptExpired) || !expired && err != nil {
				t.Errorf("operation %d of 100: got %v", i, err)
			} else if expired && cas.OutcomeOf(err) != cas.Uncertain {
				t.Errorf("expired: got outcome %q: an earlier try may have been applied", cas.OutcomeOf(err))
			}
			outcome, err := cas.Resolve(t.Context(), s, "acct", id)
			if expired := i < 93; expired != errors.Is(err, cas.ErrReceiptExpired) || !expired && outcome != cas.Applied {
				t.Errorf("resolve operation %d of 100: got %q, %v", i, outcome, err)
			}
		}
		if now := balance(t, s); now != before || before != 101 {
			t.Errorf("balance %d, then %d: something was applied again", before, now)
		}
		if receipts(t, s) != 9 {
			t.Error("an expired operation has written a receipt that nobody will sweep")
		}
	})
}

func TestSweepDeletesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		for i := range 2*cas.MaxOps + 2 {
			if _, err := inc(t, s, cas.Dated(time.Now(), fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour) // virtual
		var sizes []int
		s.Intercept(func(c memkv.Call) memkv.Fate {
			if len(c.Txn.Then) > 0 && c.Txn.Then[0].Delete {
				sizes = append(sizes, len(c.Txn.Then))
				if len(sizes) == 2 {
					return memkv.Fate{Loss: memkv.Reply}
				}
			}
			return memkv.Fate{}
		})
		n, err := cas.Sweep(t.Context(), s, time.Minute)
		if !errors.Is(err, cas.ErrUncertain) || n != cas.MaxOps {
			t.Errorf("with a lost reply: deleted %d, %v", n, err)
		}
		if n := sweep(t, s, time.Minute); n != 2 || fmt.Sprint(sizes) != "[128 128 2]" || receipts(t, s) != 0 {
			t.Errorf("deleted %d more, in batches of %d, left are %d", n, sizes, receipts(t, s))
		}
	})
}

// A try is under way for an hour. Meanwhile somebody else applies the operation, and its receipt is
// swept: the late try finds no receipt, just as it expects.
func TestSweepShutsOutALateTry(t *testing.T) {
	for _, resolve := range []bool{false, true} { // instead of applying it: the receipt is "aborted"
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			late := s.Server().Client()
			defer late.Close()
			late.Intercept(func(c memkv.Call) memkv.Fate {
				if len(c.Txn.Then) > 0 {
					return memkv.Fate{Delay: 2 * time.Hour}
				}
				return memkv.Fate{}
			})
			id := cas.Dated(time.Now(), "op")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			// The try's own key has to be as it was, so it is another's condition that must fail: it adds to
			// a key that the other deletes again.
			_, err := cas.Update(ctx, late, "acct", add(1), cas.UpdateConfig{Receipt: id})
			if !errors.Is(err, cas.ErrUncertain) {
				t.Fatalf("got %v", err)
			}
			if resolve {
				if outcome, err := cas.Resolve(t.Context(), s, "acct", id); outcome != cas.NotApplied || err != nil {
					t.Fatalf("resolve: got %q, %v", outcome, err)
				}
			} else {
				if _, err := inc(t, s, id); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Delete("acct")}}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour) // virtual
			if n := sweep(t, s, 30*time.Minute); n != 1 {
				t.Fatalf("deleted %d", n)
			}
			time.Sleep(2 * time.Hour) // virtual: the late try arrives
			if got := balance(t, s); got != 0 {
				t.Errorf("the late try was applied after its receipt was swept: balance %d", got)
			}
			if receipts(t, s) != 0 {
				t.Error("a receipt was written after it was swept")
			}
			if outcome, err := cas.Resolve(t.Context(), s, "acct", id); outcome != cas.Uncertain || !errors.Is(err, cas.ErrReceiptExpired) {
				t.Errorf("resolve: got %q, %v", outcome, err)
			}
		})
	}
}

// The horizon rises between a call's read and its commit.
func TestSweepDuringAnUpdate(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		want error
	}{
		{time.Hour, nil},
		{time.Minute, cas.ErrReceiptExpired},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := memkv.New()
			defer s.Close()
			id := cas.Dated(time.Now(), "op")
			time.Sleep(30 * time.Minute) // virtual
			runs := 0
			_, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
				if runs++; runs == 1 {
					sweep(t, s, c.age)
				}
				return add(1)(a)
			}, cas.UpdateConfig{Receipt: id})
			if !errors.Is(err, c.want) || c.want == nil && runs != 2 {
				t.Errorf("age %v: got %v after %d runs", c.age, err, runs)
			}
			if want := map[bool]int{true: 1}[c.want == nil]; balance(t, s) != want {
				t.Errorf("age %v: balance %d, want %d", c.age, balance(t, s), want)
			}
		})
	}
}

// A receipt that is still there answers, whatever the horizon says; and one that is aborted says that
// nothing was and will be applied.
func TestExpiredReceiptThatIsThereAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		applied, aborted := cas.Dated(time.Now(), "1"), cas.Dated(time.Now(), "2")
		if _, err := inc(t, s, applied); err != nil {
			t.Fatal(err)
		}
		if _, err := cas.Resolve(t.Context(), s, "acct", aborted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // virtual
		s.Intercept(func(c memkv.Call) memkv.Fate {
			if len(c.Txn.Then) > 0 && c.Txn.Then[0].Delete {
				return memkv.Fate{Loss: memkv.Connection}
			}
			return memkv.Fate{}
		})
		if _, err := cas.Sweep(t.Context(), s, time.Minute); !errors.Is(err, cas.ErrUnavailable) {
			t.Fatalf("sweep: %v", err)
		}
		if a, err := inc(t, s, applied); err != nil || a.Balance != 1 {
			t.Errorf("applied: got %v, %v", a, err)
		}
		if _, err := inc(t, s, aborted); !errors.Is(err, cas.ErrReceiptExpired) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("aborted: got %v, outcome %q", err, cas.OutcomeOf(err))
		}
		if outcome, err := cas.Resolve(t.Context(), s, "acct", aborted); outcome != cas.NotApplied || err != nil {
			t.Errorf("aborted: resolved as %q, %v", outcome, err)
		}
		if got := balance(t, s); got != 1 {
			t.Errorf("balance %d", got)
		}
	})
}

func TestSweepRefuses(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	if _, err := cas.Sweep(t.Context(), s, time.Second); !errors.Is(err, cas.ErrInvalid) {
		t.Errorf("age of a second: got %v", err)
	}
	for _, id := range []string{"@", "@20260101", "@20260101T000000Z", "@20261301T000000Z-x", "@19991231T000000Z-x", cas.Dated(time.Time{}, "x")} {
		if _, err := inc(t, s, id); !errors.Is(err, cas.ErrInvalid) {
			t.Errorf("receipt %q: got %v", id, err)
		}
	}
}

func TestHorizonOnlyRises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		time.Sleep(time.Hour) // virtual
		sweep(t, s, time.Minute)
		before, err := s.Get(t.Context(), cas.ReceiptPrefix+"horizon")
		if err != nil {
			t.Fatal(err)
		}
		sweep(t, s, time.Hour)
		if e, err := s.Get(t.Context(), cas.ReceiptPrefix+"horizon"); err != nil || e.Rev != before.Rev {
			t.Errorf("got %s, %v, want %s", e.Value, err, before.Value)
		}
	})
}

// A horizon that can't be read is no licence.
func TestUnreadableHorizon(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	for _, value := range []string{"nonsense", `{"format":2}`} {
		if _, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put(cas.ReceiptPrefix+"horizon", []byte(value))}}); err != nil {
			t.Fatal(err)
		}
		id := cas.Dated(time.Now(), "op")
		if _, err := inc(t, s, id); err == nil || cas.OutcomeOf(err) != cas.Uncertain || balance(t, s) != 0 {
			t.Errorf("horizon %s: got %v", value, err)
		}
		if outcome, err := cas.Resolve(t.Context(), s, "acct", id); err == nil || outcome != cas.Uncertain {
			t.Errorf("horizon %s: resolved as %q, %v", value, outcome, err)
		}
		if _, err := cas.Sweep(t.Context(), s, time.Minute); err == nil {
			t.Errorf("horizon %s: swept", value)
		}
	}
}
