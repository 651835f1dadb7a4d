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

func TestUpdateAllRoundTrips(t *testing.T) {
	for _, c := range []struct {
		receipt string
		fetch   []string
		commits int // what is read is a commit without changes
	}{
		{"", nil, 3},
		{"", []string{"a", "b"}, 2},
		{"op", nil, 3},
		{"op", []string{"a", "b"}, 2},
	} {
		s := memkv.New()
		fund(t, s, 10, "a", "b")
		n := counted(s)
		runs := 0
		_, err := cas.UpdateAll(t.Context(), s, "transfer", func(d *cas.Draft) (int, error) {
			if err := d.Fetch(c.fetch...); err != nil {
				return 0, err
			}
			left, err := transfer("a", "b", 1)(d)
			if runs++; runs == 1 {
				if _, err := cas.Update(t.Context(), s.Server().Client(), "b", add(1), cas.UpdateConfig{}); err != nil {
					t.Error(err)
				}
			}
			return left, err
		}, cas.UpdateConfig{Receipt: c.receipt})
		if err != nil || runs != 2 || n[memkv.Get] != 0 || n[memkv.Commit] != c.commits+1 {
			t.Errorf("receipt %q, fetch %q: got %v; %d runs took %d commits, want %d and one for the retry",
				c.receipt, c.fetch, err, runs, n[memkv.Commit], c.commits)
		}
		_ = s.Close()
	}
}

// What f saw in its first reads has changed when it reads more: it must not go on with both.
func TestUpdateAllBeginsAnewOnATornRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New()
		defer s.Close()
		fund(t, s, 10, "a", "b")
		runs := 0
		var took cas.Effort
		_, err := cas.UpdateAll(t.Context(), s, "read", func(d *cas.Draft) (int, error) {
			runs++
			a, err := cas.Read[account](d, "a")
			if err != nil {
				return 0, err
			}
			if runs == 1 {
				if _, err := cas.UpdateAll(t.Context(), s, "transfer", transfer("a", "b", 5), cas.UpdateConfig{}); err != nil {
					t.Error(err)
				}
			}
			b, err := cas.Read[account](d, "b")
			if err == nil && a.Balance+b.Balance != 20 {
				t.Errorf("run %d saw %d and %d", runs, a.Balance, b.Balance)
			}
			return 0, nil // and forgets the error
		}, cas.UpdateConfig{Observe: func(e cas.Effort) { took = e }})
		if err != nil || runs != 2 || took.Conflicts != 1 || took.Tries != 2 {
			t.Errorf("got %v after %d runs, %+v", err, runs, took)
		}
	})
}

func TestUpdateAllWritesAreReadBack(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	fund(t, s, 10, "a")
	_, err := cas.UpdateAll(t.Context(), s, "x", func(d *cas.Draft) (int, error) {
		if err := cas.Write(d, "new", account{Balance: 1}); err != nil {
			return 0, err
		}
		if a, err := cas.Read[account](d, "new"); err != nil || a.Balance != 1 {
			t.Errorf("got %v, %v", a, err)
		}
		if err := d.Delete("a"); err != nil {
			return 0, err
		}
		if a, err := cas.Read[account](d, "a"); err != nil || a.Balance != 0 {
			t.Errorf("deleted: got %v, %v", a, err)
		}
		return 0, cas.Write(d, "new", account{Balance: 2})
	}, cas.UpdateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 2}, balances(t, s, "a", "new")); diff != "" {
		t.Error(diff)
	}
	if e, err := s.Get(t.Context(), "a"); err != nil || e.Rev != 0 {
		t.Errorf("not deleted: %v, %v", e, err)
	}
}

func TestUpdateAllKeepsLeases(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	l, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.PutLeased("a", []byte(`{"balance":9}`), l.ID)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := cas.UpdateAll(t.Context(), s, "transfer", transfer("a", "b", 1), cas.UpdateConfig{}); err != nil {
		t.Fatal(err)
	}
	a, _ := s.Get(t.Context(), "a")
	b, _ := s.Get(t.Context(), "b")
	if a.Lease != l.ID || b.Lease != 0 {
		t.Errorf("got leases %x and %x, want %x and none", a.Lease, b.Lease, l.ID)
	}
}

func TestDraftEndsWithItsRun(t *testing.T) {
	s := memkv.New()
	defer s.Close()
	var kept *cas.Draft
	if _, err := cas.UpdateAll(t.Context(), s, "x", func(d *cas.Draft) (int, error) { kept = d; return 0, cas.Write(d, "a", 1) }, cas.UpdateConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{kept.Fetch("a"), cas.Write(kept, "a", 1), kept.Delete("a"), second(cas.Read[int](kept, "a"))} {
		if !errors.Is(err, cas.ErrInvalid) {
			t.Errorf("a draft after its run: got error %v", err)
		}
	}
}

// What an earlier run knew, and this one's conflict or read does not speak of, is of another revision.
func TestUpdateAllDoesNotMixRevisions(t *testing.T) {
	for name, between := range map[string][]string{
		"of two conflicts":          nil,
		"of a conflict and a fetch": {"c"},
	} {
		s := memkv.New()
		fund(t, s, 10, "a", "b", "c")
		move := func(from, to string) {
			if _, err := cas.UpdateAll(t.Context(), s, "transfer", transfer(from, to, 1), cas.UpdateConfig{}); err != nil {
				t.Error(err)
			}
		}
		read := func(d *cas.Draft, keys ...string) (sum int, err error) {
			for _, key := range keys {
				a, err := cas.Read[account](d, key)
				if err != nil {
					return 0, err
				}
				sum += a.Balance
			}
			return sum, nil
		}
		runs := 0
		_, err := cas.UpdateAll(t.Context(), s, "x", func(d *cas.Draft) (int, error) {
			runs++
			switch {
			case runs == 1: // knows a and b, and conflicts
				if _, err := read(d, "a", "b"); err != nil {
					return 0, err
				}
				move("a", "b")
				return 0, cas.Write(d, "d", account{})
			case runs == 2 && between == nil: // conflicts on a alone
				if _, err := read(d, "a"); err != nil {
					return 0, err
				}
				move("a", "b")
				return 0, cas.Write(d, "a", account{})
			case runs == 3 && between == nil:
				if sum, err := read(d, "a", "b"); err == nil && sum != 20 {
					t.Errorf("%s: saw the sum %d of a and b", name, sum)
				} else if err != nil {
					return 0, err
				}
			case runs == 2: // b and c change, and c is read after that
				move("b", "c")
				if sum, err := read(d, "c", "b"); err == nil && sum != 21 {
					t.Errorf("%s: saw the sum %d of b and c", name, sum)
				} else if err != nil {
					return 0, err
				}
			}
			return 0, nil
		}, cas.UpdateConfig{})
		if err != nil || runs < 2 {
			t.Errorf("%s: got %v after %d runs", name, err, runs)
		}
		_ = s.Close()
	}
}
