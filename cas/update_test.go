package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

type account struct {
	Balance int      `json:"balance"`
	Log     []string `json:"log,omitempty"`
}

func add(n int) func(*account) error {
	return func(a *account) error {
		a.Balance += n
		return nil
	}
}

func balance(t *testing.T, s cas.KV) int {
	t.Helper()
	a, _, err := cas.Get[account](t.Context(), s, "acct")
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return a.Balance
}

func TestGet(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	if v, rev, err := cas.Get[account](t.Context(), s, "acct"); err != nil || rev != 0 || v.Balance != 0 {
		t.Errorf("absent key: got %v, %d, %v", v, rev, err)
	}
	put(t, s, `{"balance":5}`)
	if v, rev, err := cas.Get[account](t.Context(), s, "acct"); err != nil || rev != s.Server().Revision() || v.Balance != 5 {
		t.Errorf("got %v, %d, %v", v, rev, err)
	}
	put(t, s, `nonsense`)
	if _, _, err := cas.Get[account](t.Context(), s, "acct"); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("unreadable value: got error %v", err)
	}
}

func put(t *testing.T, s cas.KV, value string) int64 {
	t.Helper()
	rev, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("acct", []byte(value))}})
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return rev
}

func TestUpdateCountsEveryIncrementOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		var wg sync.WaitGroup
		for i := range 8 {
			c := cas.UpdateConfig{Tries: 1000}
			wg.Go(func() {
				s := server.Client()
				defer s.Close()
				s.Intercept(func(memkv.Call) memkv.Fate {
					return memkv.Fate{Delay: time.Millisecond, Reply: time.Millisecond}
				})
				for n := range 20 {
					if i%2 == 0 {
						c.Receipt = fmt.Sprintf("%d-%d", i, n)
					}
					if _, err := cas.Update(t.Context(), s, "acct", add(1), c); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		s := server.Client()
		defer s.Close()
		if got := balance(t, s); got != 160 {
			t.Errorf("got balance %d, want 160", got)
		}
	})
}

// counted counts requests by kind.
func counted(s *memkv.Client) map[memkv.Kind]int {
	n := make(map[memkv.Kind]int)
	s.Intercept(func(c memkv.Call) memkv.Fate {
		n[c.Kind]++
		return memkv.Fate{}
	})
	return n
}

func TestUpdateRetryCostsOneRoundTrip(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	other := s.Server().Client()
	defer other.Close()
	n := counted(s)
	runs := 0
	got, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
		if runs++; runs <= 3 {
			put(t, other, fmt.Sprintf(`{"balance":%d}`, runs*100))
		}
		a.Balance++
		return nil
	}, cas.UpdateConfig{})
	if err != nil || got.Balance != 301 || balance(t, other) != 301 {
		t.Errorf("got %v, %v, want 301", got, err)
	}
	if n[memkv.Get] != 1 || n[memkv.Commit] != 4 || runs != 4 {
		t.Errorf("3 conflicts took %d gets and %d commits, want 1 and 4; f ran %d times", n[memkv.Get], n[memkv.Commit], runs)
	}
}

func TestUpdateGivesUpAfterTries(t *testing.T) {
	for _, receipt := range []string{"", "op"} {
		s := memkv.New()
		defer s.Close()
		other := s.Server().Client()
		defer other.Close()
		runs := 0
		_, err := cas.Update(t.Context(), s, "acct", func(*account) error {
			runs++
			put(t, other, `{}`)
			return nil
		}, cas.UpdateConfig{Tries: 3, Receipt: receipt})
		if !errors.Is(err, cas.ErrContended) || cas.OutcomeOf(err) != cas.NotApplied || runs != 3 {
			t.Errorf("receipt %q: got error %v, outcome %q, after %d runs", receipt, err, cas.OutcomeOf(err), runs)
		}
	}
}

func TestUpdateFailedGuardEndsAtOnce(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	rev, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("claim", []byte("me"))}})
	if err != nil {
		t.Fatal(err)
	}
	guard := cas.UpdateConfig{Guards: []cas.Cond{cas.LeasedTo("claim", 0), cas.AtRev("claim", rev)}}
	if _, err := cas.Update(t.Context(), s, "acct", add(5), guard); err != nil {
		t.Fatalf("with the guard holding: %v", err)
	}
	now, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("claim", []byte("other"))}})
	if err != nil {
		t.Fatal(err)
	}
	for _, receipt := range []string{"", "op"} {
		guard.Receipt = receipt
		runs := 0
		_, err = cas.Update(t.Context(), s, "acct", func(*account) error { runs++; return nil }, guard)
		conflict, ok := errors.AsType[*cas.ConflictError](err)
		if !ok || errors.Is(err, cas.ErrContended) || runs != 1 || cas.OutcomeOf(err) != cas.NotApplied {
			t.Fatalf("got error %v after %d runs, want a conflict after 1", err, runs)
		}
		found := false
		for _, e := range conflict.Current {
			found = found || e.Key == "claim" && e.Rev == now && string(e.Value) == "other"
		}
		if !found {
			t.Errorf("the conflict does not say who has the claim: %v", conflict.Current)
		}
	}
	if got := balance(t, s); got != 5 {
		t.Errorf("got balance %d, want 5", got)
	}
}

// A guard that fails together with the key must not be retried until the tries are used up.
func TestUpdateFailedGuardIsSeenAmongConflicts(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	runs := 0
	_, err := cas.Update(t.Context(), s, "acct", func(*account) error {
		runs++
		put(t, s, `{}`)
		_, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("claim", nil)}})
		return err
	}, cas.UpdateConfig{Guards: []cas.Cond{cas.Absent("claim")}})
	if _, ok := errors.AsType[*cas.ConflictError](err); !ok || errors.Is(err, cas.ErrContended) || runs != 1 {
		t.Errorf("got error %v after %d runs, want a conflict after 1", err, runs)
	}
}

func TestUpdateStopsOnFsError(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	before := put(t, s, `{"balance":5}`)
	broke := &brokeError{missing: 7}
	for _, receipt := range []string{"", "op"} {
		_, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
			a.Balance = 0
			// What f's error says of other work is not what Update's says.
			return fmt.Errorf("%w: %w", cas.ErrUncertain, broke)
		}, cas.UpdateConfig{Receipt: receipt})
		got, ok := errors.AsType[*brokeError](err)
		if !ok || got.missing != 7 || !errors.Is(err, broke) {
			t.Errorf("f's error is not in %v", err)
		}
		if cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got outcome %q", cas.OutcomeOf(err))
		}
	}
	if s.Server().Revision() != before {
		t.Error("something was written")
	}
}

type brokeError struct{ missing int }

func (e *brokeError) Error() string { return fmt.Sprintf("%d missing", e.missing) }

func TestUpdateGivesFAFreshValueEachTime(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	put(t, s, `{"log":["a"]}`)
	runs := 0
	got, err := cas.Update(t.Context(), s, "acct", func(a *account) error {
		if runs++; runs == 1 {
			put(t, s, `{"balance":3}`)
		}
		a.Log = append(a.Log, "b")
		return nil
	}, cas.UpdateConfig{})
	if err != nil || got.Balance != 3 || strings.Join(got.Log, "") != "b" {
		t.Errorf("got %+v, %v: the second run saw the first's value", got, err)
	}
}

func TestUpdateKeepsTheLease(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	l, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.PutLeased("acct", []byte(`{}`), l.ID)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{}); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(t.Context(), "acct"); err != nil || e.Lease != l.ID {
		t.Errorf("got %v, %v, want lease %x", e, err, l.ID)
	}
}

func TestUpdateObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := cas.Update(ended, s, "acct", add(1), cas.UpdateConfig{})
		if !errors.Is(err, context.Canceled) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("ended before: got error %v, outcome %q", err, cas.OutcomeOf(err))
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = cas.Update(ctx, s, "acct", func(*account) error {
			put(t, s, `{}`)
			return nil
		}, cas.UpdateConfig{Tries: 1 << 30})
		if !errors.Is(err, context.DeadlineExceeded) || cas.OutcomeOf(err) != cas.NotApplied || time.Since(start) != time.Second {
			t.Errorf("ended between tries: got error %v, outcome %q, after %v", err, cas.OutcomeOf(err), time.Since(start))
		}

		s.Intercept(func(c memkv.Call) memkv.Fate {
			return memkv.Fate{Delay: time.Minute}
		})
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = cas.Update(ctx, s, "acct", add(1), cas.UpdateConfig{Receipt: "op"})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended during the read: got error %v", err)
		}
	})
}

func TestUpdateWaitsOutAnUnreachableStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		commits := 0
		s.Intercept(func(c memkv.Call) memkv.Fate {
			if c.Kind == memkv.Commit {
				if commits++; commits <= 3 {
					return memkv.Fate{Loss: memkv.Connection}
				}
			}
			return memkv.Fate{}
		})
		if _, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{}); err != nil || commits != 4 {
			t.Errorf("got error %v after %d commits", err, commits)
		}
		commits = -1000
		_, err := cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{Tries: 4})
		if !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied || commits != -996 {
			t.Errorf("got error %v after %d commits", err, commits+1000)
		}
	})
}

func TestUpdateRefusesWhatItCantReadOrWrite(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	before := put(t, s, `[1]`)
	for name, err := range map[string]error{
		"value of another type": second(cas.Update(t.Context(), s, "acct", add(1), cas.UpdateConfig{})),
		"value without JSON":    second(cas.Update(t.Context(), s, "new", func(v *chan int) error { *v = make(chan int); return nil }, cas.UpdateConfig{})),
		"receipt with a slash":  second(cas.Update(t.Context(), s, "new", add(1), cas.UpdateConfig{Receipt: "a/b"})),
		"long receipt":          second(cas.Update(t.Context(), s, "new", add(1), cas.UpdateConfig{Receipt: strings.Repeat("x", 300)})),
		"empty key":             second(cas.Update(t.Context(), s, "", add(1), cas.UpdateConfig{})),
		"too many guards":       second(cas.Update(t.Context(), s, "new", add(1), cas.UpdateConfig{Guards: make([]cas.Cond, 200)})),
	} {
		if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s: got error %v, outcome %q", name, err, cas.OutcomeOf(err))
		}
	}
	if s.Server().Revision() != before {
		t.Error("something was written")
	}
}

func second[T any](_ T, err error) error { return err }
