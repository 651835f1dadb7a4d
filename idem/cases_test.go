package idem_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/shard"
)

func token(epoch shard.Epoch) shard.Token {
	return shard.Token{Group: "accounts", GroupID: "9f86d081", Shard: 7, Epoch: epoch}
}

// fates is one client's, by the commits that it sends, counted from 1.
func fates(c *memkv.Client, f func(commit int) memkv.Fate) {
	n := 0
	c.Intercept(func(call memkv.Call) memkv.Fate {
		if call.Kind != memkv.Commit {
			return memkv.Fate{}
		}
		n++
		return f(n)
	})
}

// The reported failure: a retry whose payload had been refreshed did not recognise its own first try, and
// took it for somebody else's. Here a lost reply to a claim is recognised by the id that the try has
// drawn, so it goes on at once, and is not told that it is in progress.
func TestCase_cockroach127301_LostClaimIsOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memkv.New()
		defer store.Close()
		e, err := idem.New(idem.OnCAS(store, ""), idem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, loss := range []memkv.Loss{memkv.Request, memkv.Reply} {
			fates(store, func(commit int) memkv.Fate {
				if commit == 1 {
					return memkv.Fate{Loss: loss}
				}
				return memkv.Fate{}
			})
			begun := time.Now()
			tries, err := idem.Do(t.Context(), e, idem.Request{Scope: "a", Key: "lost " + string('0'+rune(loss))},
				func(_ context.Context, op *idem.Op) (int, error) { return op.Tries(), nil })
			if tries != 1 || err != nil {
				t.Errorf("got try %d, %v, want the first", tries, err)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("took %s: it waited for itself", took)
			}
		}
	})
}

// The reported failures: a client's own retry after a lost reply applied a write twice. Here the write
// that is sent again, and the late arrival of the first, can't both be applied.
func TestCase_etcd14890_LateArrivalIsNotAppliedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		store := server.Client()
		defer store.Close()
		e, err := idem.New(idem.OnCAS(store, ""), idem.Config{Finish: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		// The finish is on its way for two minutes. Its sender gives up on it, and sends it again.
		fates(store, func(commit int) memkv.Fate {
			if commit == 2 {
				return memkv.Fate{Delay: 2 * time.Minute}
			}
			return memkv.Fate{}
		})
		var runs atomic.Int64
		fn := func(context.Context, *idem.Op) (int64, error) { return runs.Add(1), nil }
		q := idem.Request{Scope: "a", Key: "k"}
		got, err := idem.Do(t.Context(), e, q, fn)
		if got != 1 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		before := server.Revision()
		time.Sleep(3 * time.Minute)
		got, err = idem.Do(t.Context(), e, q, fn)
		if got != 1 || err != nil || server.Revision() != before {
			t.Errorf("when the first has arrived too: got %d, %v, and %d more changes, want none", got, err, server.Revision()-before)
		}
	})
}

// The reported failure: a crash left the key in progress for a day. Here the shard's next owner takes
// over at once, though the attempt would last for a day.
func TestCase_powertoolspython4759_TakeoverByEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memkv.NewServer(memkv.Config{})
		dying, store := server.Client(), server.Client()
		defer dying.Close()
		defer store.Close()
		c := idem.Config{Attempt: 24 * time.Hour, Finish: time.Millisecond}
		old, err := idem.New(idem.OnCAS(dying, ""), c)
		if err != nil {
			t.Fatal(err)
		}
		e, err := idem.New(idem.OnCAS(store, ""), c)
		if err != nil {
			t.Fatal(err)
		}
		q := idem.Request{Scope: "a", Key: "k", Token: token(5)}
		_, _ = idem.Do(t.Context(), old, q, func(context.Context, *idem.Op) (int, error) {
			dying.Intercept(func(memkv.Call) memkv.Fate { return memkv.Fate{Loss: memkv.Connection} })
			return 1, nil
		})
		begun := time.Now()
		q.Token = token(6)
		got, err := idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (int, error) { return 2, nil })
		if got != 2 || err != nil || time.Since(begun) != 0 {
			t.Errorf("got %d, %v after %s, want 2 at once", got, err, time.Since(begun))
		}
	})
}

// What is in the store is the documented layout, for people to read, and it goes by itself.
func TestOnCAS_Layout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memkv.New()
		defer store.Close()
		e, err := idem.New(idem.OnCAS(store, "/x/"), idem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		keys := func() (kinds []string) {
			s, err := store.List(t.Context(), "/x/")
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range s.Entries {
				parts := strings.Split(entry.Key, "/")
				if len(parts) != 4 || len(parts[3]) != 52 || entry.Lease == 0 {
					t.Errorf("%s, lease %d: want /x/<kind>/<52 characters>, under a lease", entry.Key, entry.Lease)
				}
				if parts[2] == "records" && (!strings.Contains(string(entry.Value), `"scope":"tenant"`) || !strings.Contains(string(entry.Value), `"key":"k"`)) {
					t.Errorf("record: got %s, want scope and key to be read", entry.Value)
				}
				kinds = append(kinds, parts[2])
			}
			return kinds
		}
		if _, err := idem.Do(t.Context(), e, idem.Request{Scope: "tenant", Key: "k"}, func(context.Context, *idem.Op) (int, error) {
			if diff := cmp.Diff([]string{"attempts", "records"}, keys()); diff != "" {
				t.Errorf("running (-want +got):\n%s", diff)
			}
			return 1, nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, at := range []struct {
			after time.Duration
			want  []string
		}{
			{0, []string{"records", "results"}},
			{25 * time.Hour, []string{"records"}},
			{8 * 24 * time.Hour, nil},
		} {
			time.Sleep(at.after)
			if diff := cmp.Diff(at.want, keys()); diff != "" {
				t.Errorf("%s later (-want +got):\n%s", at.after, diff)
			}
		}
	})
}

// Operations share leases: their number does not grow with that of operations.
func TestOnCAS_SharesLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memkv.New()
		defer store.Close()
		grants := 0
		store.Intercept(func(c memkv.Call) memkv.Fate {
			if c.Kind == memkv.Grant {
				grants++
			}
			return memkv.Fate{}
		})
		e, err := idem.New(idem.OnCAS(store, ""), idem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if _, err := idem.Do(t.Context(), e, idem.Request{Scope: "a", Key: string(rune('a' + i))}, func(context.Context, *idem.Op) (int, error) { return 1, nil }); err != nil {
				t.Fatal(err)
			}
		}
		if grants != 3 { // attempts, results, records
			t.Errorf("%d leases were granted, want 3", grants)
		}
	})
}

// A lease that is gone before its time, by whatever hand, is replaced.
func TestOnCAS_LostLease(t *testing.T) {
	server := memkv.NewServer(memkv.Config{})
	store := server.Client()
	defer store.Close()
	s := idem.OnCAS(store, "")
	p := idem.Put{Head: []byte("a"), Body: []byte("b"), Attempt: time.Minute, Replay: time.Minute, Forget: time.Hour}
	rev, err := s.Swap(t.Context(), "id", 0, p)
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.List(t.Context(), "/tenure-idem/")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Entries {
		if strings.Contains(e.Key, "/attempts/") {
			server.Expire(e.Lease)
		}
	}
	if err := s.Extend(t.Context(), "id", rev, time.Minute); err != nil {
		t.Errorf("Extend: %v", err)
	}
	for _, e := range list.Entries {
		if strings.Contains(e.Key, "/records/") {
			server.Expire(e.Lease)
		}
	}
	// The record is gone with its lease, and the others of it have stayed.
	if r, err := s.Get(t.Context(), "id"); err != nil || r.Rev != 0 {
		t.Errorf("Get: got %+v, %v, want nothing", r, err)
	}
	if _, err := s.Swap(t.Context(), "id", 0, idem.Put{Head: []byte("c"), Forget: time.Hour}); err != nil {
		t.Fatalf("Swap: %v", err)
	}
	if r, err := s.Get(t.Context(), "id"); err != nil || string(r.Head) != "c" || r.Replayable || r.Attempt > 0 {
		t.Errorf("Get: got %+v, %v, want the new record and nothing of the old one", r, err)
	}
}

// A store that takes less than Config.MaxResult allows: the result is done, and not kept.
func TestOnCAS_StoreTakesLess(t *testing.T) {
	server := memkv.NewServer(memkv.Config{MaxRequest: 10_000})
	store := server.Client()
	defer store.Close()
	e, err := idem.New(idem.OnCAS(store, ""), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 20_000)
	for try := range 2 {
		got, err := idem.Do(t.Context(), e, idem.Request{Scope: "a", Key: "k"}, func(ctx context.Context, op *idem.Op) (string, error) {
			if try > 0 {
				t.Error("ran again")
			}
			return idem.Step(ctx, op, "step", func(context.Context, string) (string, error) { return large, nil })
		})
		if try == 0 && (got != large || err != nil) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
		if try == 1 && cas.OutcomeOf(err) != cas.Applied {
			t.Errorf("then: got %v, want it applied and not kept", err)
		}
	}
}

func TestNew_Checks(t *testing.T) {
	s := idem.OnCAS(memkv.New(), "")
	for _, c := range []idem.Config{
		{Attempt: -1},
		{Attempt: time.Millisecond},
		{Keep: -1},
		{Tombstone: 100 * 365 * 24 * time.Hour},
		{Finish: -1},
		{MaxResult: -1},
	} {
		if _, err := idem.New(s, c); err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%+v: got %v, want an error, not applied", c, err)
		}
	}
	if _, err := idem.New(nil, idem.Config{}); err == nil {
		t.Error("no store: got nil")
	}
}

// The digests are a format: other versions of the program and other processes reckon with them.
func TestFormats(t *testing.T) {
	got := idem.Fingerprint([]byte("a"), []byte("bc"))
	if a, b := string(got), string(idem.Fingerprint([]byte("ab"), []byte("c"))); a == b || len(a) != 32 {
		t.Error("where parts end does not count")
	}
	store := memkv.New()
	defer store.Close()
	e, err := idem.New(idem.OnCAS(store, ""), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = idem.Do(t.Context(), e, idem.Request{Scope: "s", Key: "k", Fingerprint: got}, func(_ context.Context, op *idem.Op) (string, error) {
		return op.Key("charge"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.List(t.Context(), "/tenure-idem/re")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, entry := range list.Entries {
		value := string(entry.Value)
		if before, after, ok := strings.Cut(value, `"claim":"`); ok {
			value = before + `"claim":"` + after[26:]
		}
		lines = append(lines, entry.Key+" "+value)
	}
	want := []string{
		`/tenure-idem/records/s4cqarur6pmihldsqfamhb7srkbjzicz7sulmvipbyxjy4fcq6ta {"format":1,"scope":"s","key":"k","fingerprint":"1:bc0731819cfe52c9f6612a961dd8efaa43f6927c4b970fe04dd647f097d52da8","state":"done","claim":"","write":2,"tries":1}`,
		`/tenure-idem/results/s4cqarur6pmihldsqfamhb7srkbjzicz7sulmvipbyxjy4fcq6ta "idem_geuvv4jzfgc52666j2b7kcxnjaj5oxrrbeldlzvo"`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// A record of another version, or of something else, is never a reason to run.
func TestUnreadableRecordsAreLeftAlone(t *testing.T) {
	store := memkv.New()
	defer store.Close()
	e, err := idem.New(idem.OnCAS(store, ""), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	q := idem.Request{Scope: "s", Key: "k"}
	runs := 0
	do := func() error {
		_, err := idem.Do(t.Context(), e, q, func(context.Context, *idem.Op) (int, error) { runs++; return 1, nil })
		return err
	}
	if err := do(); err != nil {
		t.Fatal(err)
	}
	list, err := store.List(t.Context(), "/tenure-idem/records/")
	if err != nil {
		t.Fatal(err)
	}
	good := list.Entries[0]
	for _, edit := range [][2]string{
		{`"format":1`, `"format":2`},
		{`"state":"done"`, `"state":"paused"`},
		{`"scope":"s"`, `"scope":"t"`},
		{`"key":"k"`, `"key":"l"`},
		{`"fingerprint":"1:"`, `"fingerprint":"2:"`},
		{`{`, `<`},
	} {
		value := strings.Replace(string(good.Value), edit[0], edit[1], 1)
		if value == string(good.Value) {
			t.Fatalf("%s is not in %s", edit[0], value)
		}
		if _, err := store.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put(good.Key, []byte(value))}}); err != nil {
			t.Fatal(err)
		}
		err := do()
		if err == nil || cas.OutcomeOf(err) != cas.NotApplied || runs != 1 {
			t.Errorf("%s: got %v, %d runs, want an error and no second run", edit[1], err, runs)
		}
		if _, ok := errors.AsType[*idem.MismatchError](err); ok {
			t.Errorf("%s: got %v, though nobody can tell that it is another request", edit[1], err)
		}
	}
}
