package layout

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

var group = shard.Group{Name: "g", Shards: 8, Prefix: "/t"}

func TestKeys(t *testing.T) {
	k := For(group)
	for _, c := range []struct {
		key   string
		kind  Kind
		shard int
		id    string
	}{
		{k.Config(), ConfigKey, 0, ""},
		{k.Member("a.b:1"), MemberKey, 0, "a.b:1"},
		{k.Claim(0), ClaimKey, 0, ""},
		{k.Claim(65535), ClaimKey, 65535, ""},
		{k.Move(12), MoveKey, 12, ""},
		{k.Avoid(3, "n"), AvoidKey, 3, "n"},
		{k.Pin(7), PinKey, 7, ""},
		{k.Drain("n"), DrainKey, 0, "n"},
		{"/t/g/claims/1", Other, 0, ""},
		{"/t/g/claims/00x01", Other, 0, ""},
		{"/t/g/claims/-0001", Other, 0, ""},
		{"/t/g/config/x", Other, 0, ""},
		{"/t/g/later/thing", Other, 0, ""},
		{"/t/gg/config", Other, 0, ""},
	} {
		kind, s, id := k.Parse(c.key)
		if kind != c.kind || s != c.shard || id != c.id {
			t.Errorf("Parse(%q): got %v, %d, %q, want %v, %d, %q", c.key, kind, s, id, c.kind, c.shard, c.id)
		}
		if c.kind != Other && !strings.HasPrefix(c.key, k.Prefix()) {
			t.Errorf("%q does not begin with %q", c.key, k.Prefix())
		}
	}
	if got, want := k.Claim(7), "/t/g/claims/00007"; got != want {
		t.Errorf("Claim(7): got %q, want %q", got, want)
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		value string
		ok    bool
		newer bool
	}{
		{`{"format":1,"member":"a"}`, true, false},
		{`{"format":1,"member":"a","added":"later"}`, true, false},
		{`{"format":2,"member":["another","shape"]}`, false, true},
		{`{"member":"a"}`, false, false},
		{`{"format":1,"member":7}`, false, false},
		{`a`, false, false},
		{``, false, false},
	} {
		got, err := Decode[Claim]([]byte(c.value))
		if (err == nil) != c.ok || errors.Is(err, ErrFormat) != c.newer {
			t.Errorf("Decode(%s): got %v", c.value, err)
		}
		if err != nil && got != (Claim{}) {
			t.Errorf("Decode(%s): got %v with the error, want the zero value", c.value, got)
		}
	}
}

// TestViewFollowsSnapshot: however a state came about, a view that applied the changes equals one loaded from the end.
func TestViewFollowsSnapshot(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		k := For(group)
		store := make(map[string]cas.Entry)
		v := NewView(k, group.Shards)
		var touched Touched
		board := NewBoard(group.Shards)
		for rev := int64(1); rev < 60; rev++ {
			c := cas.Change{Rev: rev}
			for _, key := range randomKeys(r, k) {
				old, there := store[key]
				if there && r.IntN(3) == 0 {
					delete(store, key)
					c.Events = append(c.Events, cas.Event{Entry: cas.Entry{Key: key, Rev: rev}, Deleted: true})
					continue
				}
				e := cas.Entry{Key: key, Value: randomValue(r, k, key), Rev: rev, Created: rev, Lease: cas.LeaseID(r.IntN(4))}
				if there {
					e.Created = old.Created
				}
				switch key { // a member's lease is no other's
				case k.Member("a"):
					e.Lease &= 1
				case k.Member("b"):
					e.Lease |= 2
				}
				store[key] = e
				c.Events = append(c.Events, cas.Event{Entry: e})
			}
			v.Apply(c, &touched)
			board.Publish(v, &touched)
		}
		snap := cas.Snapshot{Rev: 59}
		for _, e := range store {
			snap.Entries = append(snap.Entries, e)
		}
		want := Load(k, group.Shards, snap)
		opts := cmp.Options{
			cmp.AllowUnexported(View{}, Keys{}),
			cmpopts.IgnoreFields(View{}, "byLease"),
			cmpopts.EquateEmpty(),
			cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) }),
		}
		if diff := cmp.Diff(want, v, opts); diff != "" {
			t.Fatalf("seed %d: view (-loaded +applied):\n%s", seed, diff)
		}
		fresh := NewBoard(group.Shards)
		fresh.PublishAll(want)
		for s := range group.Shards {
			if diff := cmp.Diff(fresh.Owner(s), board.Owner(s)); diff != "" {
				t.Fatalf("seed %d: board at shard %d (-fresh +published):\n%s", seed, s, diff)
			}
		}
	}
}

func randomKeys(r *rand.Rand, k Keys) []string {
	all := []string{k.Config(), k.Member("a"), k.Member("b"), k.Drain("a"), k.Prefix() + "unknown/thing"}
	for s := range group.Shards {
		all = append(all, k.Claim(s), k.Move(s), k.Avoid(s, "a"), k.Pin(s))
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+r.IntN(4)]
}

func randomValue(r *rand.Rand, k Keys, key string) []byte {
	if r.IntN(10) == 0 {
		return []byte("garbage")
	}
	switch kind, _, _ := k.Parse(key); kind {
	case ConfigKey:
		return Encode(Config{Format: 1, ID: "x", Shards: group.Shards, Lineage: r.IntN(40)})
	case MemberKey:
		return Encode(Member{Format: 1, Member: shard.Member{ID: "a", Weight: r.IntN(3)}})
	case MoveKey:
		return Encode(Move{Format: 1, To: "a", Ready: r.IntN(2) == 0})
	case PinKey:
		return Encode(Pin{Format: 1, Member: "a"})
	}
	return []byte(fmt.Sprintf(`{"format":1,"n":%d}`, r.IntN(10)))
}

// TestEpochOfOldLineage: a claim from before the config's last change is of the lineage before, and gives no epoch.
func TestEpochOfOldLineage(t *testing.T) {
	v := NewView(For(group), group.Shards)
	v.Config = ConfigState{Config: Config{Lineage: 33}, Rev: 100}
	if got := v.Epoch(99); got != 0 {
		t.Errorf("epoch of a claim at 99, config at 100: got %v, want none", got)
	}
	if got, want := v.Epoch(101), shard.Epoch(33<<48|101); got != want {
		t.Errorf("epoch of a claim at 101: got %v, want %v", got, want)
	}
}
