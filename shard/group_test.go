package shard_test

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/tenure-go/tenure/shard"
)

// The published vectors are what others implement: a change here moves every user's keys.
func TestOfVectors(t *testing.T) {
	f, err := os.Open("testdata/vectors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		n++
		field := strings.Split(sc.Text(), "\t")
		key, err := strconv.Unquote(field[0])
		if err != nil || len(field) != 9 {
			t.Fatalf("line %q: %v", sc.Text(), err)
		}
		if got := fmt.Sprintf("%016x", xxhash.Sum64String(key)); got != field[1] {
			t.Errorf("xxh64(%q) = %s, want %s", key, got, field[1])
		}
		kafka, err := strconv.ParseInt(field[5], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		// With 2^31 of them the remainder would be all of the hash; the largest group shows 16 bits of it,
		// and other counts the rest.
		positive := int(kafka) & math.MaxInt32
		for i, shards := range []int{64, 1000, 65536} {
			for h, want := range map[shard.Hash]string{"": field[2+i], shard.XXH64: field[2+i], shard.Murmur2: field[6+i]} {
				if got := (shard.Group{Shards: shards, Hash: h}).Of(key); strconv.Itoa(got) != want {
					t.Errorf("%q.Of(%q) of %d shards = %d, want %s", h, key, shards, got, want)
				}
			}
		}
		for shards := 1; shards <= shard.MaxShards; shards = shards*3 + 1 {
			if got := (shard.Group{Shards: shards, Hash: shard.Murmur2}).Of(key); got != positive%shards {
				t.Errorf("murmur2.Of(%q) of %d shards = %d, want %d", key, shards, got, positive%shards)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d vectors", n)
	}
}

// For every number of shards the result is the plain remainder, whichever way it was computed.
func TestOfIsTheRemainder(t *testing.T) {
	for n := 1; n <= shard.MaxShards; n++ {
		key := strconv.Itoa(n * 7919)
		if got, want := (shard.Group{Shards: n}).Of(key), int(xxhash.Sum64String(key)%uint64(n)); got != want {
			t.Fatalf("Of(%q) of %d = %d, want %d", key, n, got, want)
		}
	}
	for _, n := range []int{0, -1, math.MinInt} {
		for _, h := range []shard.Hash{shard.XXH64, shard.Murmur2} {
			if got := (shard.Group{Shards: n, Hash: h}).Of("key"); got != 0 {
				t.Errorf("%s.Of of %d shards = %d, want 0", h, n, got)
			}
		}
	}
}

func TestOfDoesNotAllocate(t *testing.T) {
	for _, h := range []shard.Hash{shard.XXH64, shard.Murmur2} {
		g := shard.Group{Name: "g", Shards: 1000, Hash: h}
		if n := testing.AllocsPerRun(100, func() { sink = g.Of("account-12345678") }); n != 0 {
			t.Errorf("%s: %v allocations", h, n)
		}
	}
}

func TestGroupValidate(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, g := range []shard.Group{
		shard.Single("a"),
		{Name: long, Shards: 65536, Hash: shard.Murmur2, Prefix: "/" + strings.Repeat("p", 254)},
		{Name: "0-9", Shards: 7, Hash: shard.XXH64, Prefix: "/org/größe"},
	} {
		if err := g.Validate(); err != nil {
			t.Errorf("%v: %v", g, err)
		}
	}
	for _, c := range []struct {
		why  string
		g    shard.Group
		want []string // each in the error, a line each
	}{
		{"zero", shard.Group{}, []string{"Group.Name", "Group.Shards 0: want 1 to 65536"}},
		{
			"everything",
			shard.Group{Name: "A", Shards: 65537, Hash: "md5", Prefix: "x"},
			[]string{"Group.Name \"A\"", "Group.Shards 65537", "Group.Hash \"md5\": want \"xxh64\" or \"murmur2\"", "Group.Prefix \"x\""},
		},
		{"long name", shard.Group{Name: long + "a", Shards: 1}, []string{"Group.Name \"" + long + "a\": 64 bytes: want at most 63"}},
		{"upper case", shard.Group{Name: "Orders", Shards: 1}, []string{"'O'"}},
		{"slash", shard.Group{Name: "a/b", Shards: 1}, []string{"'/'"}},
		{"not ASCII", shard.Group{Name: "größe", Shards: 1}, []string{"'ö'"}},
		{"dash first", shard.Group{Name: "-a", Shards: 1}, []string{"either end"}},
		{"dash last", shard.Group{Name: "a-", Shards: 1}, []string{"either end"}},
		{"negative", shard.Group{Name: "a", Shards: -1}, []string{"Group.Shards -1"}},
		{"relative prefix", shard.Group{Name: "a", Shards: 1, Prefix: "tenure"}, []string{"Group.Prefix \"tenure\": want a leading '/'"}},
		{"trailing slash", shard.Group{Name: "a", Shards: 1, Prefix: "/tenure/"}, []string{"trailing"}},
		{"only a slash", shard.Group{Name: "a", Shards: 1, Prefix: "/"}, []string{"trailing"}},
		{"empty segment", shard.Group{Name: "a", Shards: 1, Prefix: "/a//b"}, []string{"empty segment"}},
		{"control character", shard.Group{Name: "a", Shards: 1, Prefix: "/a\nb"}, []string{"control character at byte 2"}},
		{"not UTF-8", shard.Group{Name: "a", Shards: 1, Prefix: "/\xff"}, []string{"UTF-8"}},
		{"long prefix", shard.Group{Name: "a", Shards: 1, Prefix: "/" + strings.Repeat("p", 255)}, []string{"256 bytes: want at most 255"}},
	} {
		checkFaults(t, c.why, c.g.Validate(), c.want)
	}
}

// checkFaults: err has a line for each of want, in that order, and no other.
func checkFaults(t *testing.T, why string, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", why)
		return
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Errorf("%s: %d faults, want %d:\n%v", why, len(lines), len(want), err)
		return
	}
	for i, l := range lines {
		if !strings.HasPrefix(l, "shard: ") || !strings.Contains(l, want[i]) {
			t.Errorf("%s: %q, want shard: … %s", why, l, want[i])
		}
	}
}

func TestGroupWithDefaults(t *testing.T) {
	got := shard.Group{Name: "a", Shards: 3}.WithDefaults()
	want := shard.Group{Name: "a", Shards: 3, Hash: shard.XXH64, Prefix: "/tenure"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	set := shard.Group{Name: "a", Shards: 3, Hash: shard.Murmur2, Prefix: "/x"}
	if diff := cmp.Diff(set, set.WithDefaults()); diff != "" {
		t.Error(diff)
	}
	if got, want := shard.Single("a").String(), "a (1 shards, xxh64, /tenure)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

var sink int

const benchKey = "account-12345678" // 16 bytes

// Each BenchmarkOf also measures xxhash alone, for the ratio: figures from different moments of a
// shared machine can't be divided by each other.
func BenchmarkOf(b *testing.B) {
	for _, h := range []shard.Hash{shard.XXH64, shard.Murmur2} {
		for _, n := range []int{64, 1000, 65536} {
			b.Run(fmt.Sprintf("%s/shards=%d", h, n), func(b *testing.B) {
				g := shard.Group{Name: "accounts", Shards: n, Hash: h}
				b.ReportAllocs()
				s, rounds := 0, 0
				for b.Loop() {
					s += g.Of(benchKey)
					rounds++
				}
				b.StopTimer()
				own, start := b.Elapsed(), time.Now()
				for range rounds {
					s += int(xxhash.Sum64String(benchKey))
				}
				b.ReportMetric(float64(own)/float64(time.Since(start)), "x-of-xxhash")
				sink = s
			})
		}
	}
}

func BenchmarkXXHash(b *testing.B) {
	s := uint64(0)
	for b.Loop() {
		s += xxhash.Sum64String(benchKey)
	}
	sink = int(s)
}

type named string

func (n named) String() string { return string(n) }

type byXXHash struct{}

func (byXXHash) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

func BenchmarkConsistentLocateKey(b *testing.B) {
	for _, n := range []int{64, 65536} {
		b.Run(fmt.Sprintf("shards=%d", n), func(b *testing.B) {
			c := consistent.New([]consistent.Member{named("a"), named("b"), named("c")}, consistent.Config{Hasher: byXXHash{}, PartitionCount: n})
			key := []byte(benchKey)
			b.ReportAllocs()
			for b.Loop() {
				if c.LocateKey(key) == nil {
					b.Fatal("nobody")
				}
			}
		})
	}
}
