package shard_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tenure-go/tenure/shard"
)

func epoch(t testing.TB, lineage int, revision int64) shard.Epoch {
	t.Helper()
	e, err := shard.NewEpoch(lineage, revision)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEpochForms(t *testing.T) {
	for _, c := range []struct {
		lineage       int
		revision      int64
		text, decimal string
	}{
		{0, 1, "0:1", "1"},
		{0, 4812, "0:4812", "4812"},
		{1, 4812, "1:4812", "281474976715468"},
		{31, shard.MaxRevision, "31:281474976710655", "9007199254740991"}, // 2^53-1
		{32, 1, "32:1", "9007199254740993"},                               // a float64 has no such number
		{33, 4812, "33:4812", "9288674231456460"},
		{shard.MaxLineage, shard.MaxRevision, "32767:281474976710655", "9223372036854775807"},
	} {
		e := epoch(t, c.lineage, c.revision)
		if e.Lineage() != c.lineage || e.Revision() != c.revision {
			t.Errorf("%s: got %d and %d", c.text, e.Lineage(), e.Revision())
		}
		if e.String() != c.text || e.Decimal() != c.decimal {
			t.Errorf("got %s and %s, want %s and %s", e, e.Decimal(), c.text, c.decimal)
		}
		b, err := json.Marshal(e)
		if err != nil || string(b) != `"`+c.decimal+`"` {
			t.Errorf("JSON %s, %v, want %q", b, err, c.decimal)
		}
		for _, s := range []string{c.text, c.decimal} {
			var got shard.Epoch
			if err := json.Unmarshal([]byte(`"`+s+`"`), &got); err != nil || got != e {
				t.Errorf("JSON string %s: got %s, %v", s, got, err)
			}
		}
	}
}

// I2: a later epoch is the greater integer, across lineages too.
func TestI2_EpochsGrowAcrossLineages(t *testing.T) {
	last := shard.Epoch(0)
	for _, lineage := range []int{0, 1, 31, 32, 33, shard.MaxLineage} {
		for _, revision := range []int64{1, 2, 1 << 32, shard.MaxRevision} {
			e := epoch(t, lineage, revision)
			if e <= last {
				t.Errorf("%s is not above %s", e, last)
			}
			last = e
		}
	}
}

func TestNewEpochRange(t *testing.T) {
	for _, c := range []struct {
		lineage  int
		revision int64
	}{{-1, 1}, {shard.MaxLineage + 1, 1}, {0, 0}, {0, -1}, {0, shard.MaxRevision + 1}, {math.MinInt, math.MinInt64}, {math.MaxInt, math.MaxInt64}} {
		if e, err := shard.NewEpoch(c.lineage, c.revision); err == nil || e != 0 {
			t.Errorf("NewEpoch(%d, %d) = %v, %v", c.lineage, c.revision, e, err)
		}
	}
}

func TestEpochRefuses(t *testing.T) {
	for _, s := range []string{
		"", ":", "1", "1:", ":1", "-1:1", "1:-1", "+1:1", "1:+1", "1:1:1", " 1:1", "1:1 ", "0x1:1", "1_0:1", "1.0:1",
		"32768:1", "0:281474976710656", "99999999999999999999:1",
	} {
		if e, err := shard.ParseEpoch(s); err == nil {
			t.Errorf("ParseEpoch(%q) = %s", s, e)
		}
	}
	for _, s := range []string{"", "-1", "+1", "1:1", "0x1", " 1", "1 ", "1e3", "9223372036854775808"} {
		if e, err := shard.ParseDecimal(s); err == nil {
			t.Errorf("ParseDecimal(%q) = %s", s, e)
		}
	}
	for _, s := range []string{`1`, `9007199254740993`, `1.5`, `-1`, `true`, `{}`, `[]`, `""`, `"-1"`, `"1:-1"`, `"x"`, `"32768:1"`, `"1e3"`} {
		e := shard.Epoch(7)
		if err := json.Unmarshal([]byte(s), &e); err == nil || e != 7 {
			t.Errorf("JSON %s: %d, %v; want an error and 7", s, int64(e), err)
		}
	}
	e := shard.Epoch(7)
	if err := e.UnmarshalText([]byte("x")); err == nil || e != 7 {
		t.Errorf("text: %d, %v", int64(e), err)
	}
	if err := e.UnmarshalJSON(nil); err == nil || e != 7 {
		t.Errorf("no JSON: %d, %v", int64(e), err)
	}
	if err := json.Unmarshal([]byte(`12`), &e); err == nil || !strings.Contains(err.Error(), "2^53") {
		t.Errorf("the refusal of a number does not say why: %v", err)
	}
	for _, e := range []shard.Epoch{-1, math.MinInt64} {
		if b, err := json.Marshal(e); err == nil {
			t.Errorf("JSON of a negative epoch: %s", b)
		}
		if b, err := e.MarshalText(); err == nil {
			t.Errorf("text of a negative epoch: %s", b)
		}
	}
}

func TestEpochInJSON(t *testing.T) {
	type record struct {
		E shard.Epoch
		P *shard.Epoch
		M map[shard.Epoch]int
	}
	e := epoch(t, 40, 3)
	b, err := json.Marshal(record{E: e, P: &e, M: map[shard.Epoch]int{e: 1}})
	if want := `{"E":"11258999068426243","P":"11258999068426243","M":{"40:3":1}}`; err != nil || string(b) != want {
		t.Fatalf("got %s, %v, want %s", b, err, want)
	}
	var got record
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record{E: e, P: &e, M: map[shard.Epoch]int{e: 1}}, got); diff != "" {
		t.Error(diff)
	}
	got = record{E: e, P: &e}
	if err := json.Unmarshal([]byte(`{"E": null, "P": null}`), &got); err != nil || got.E != e || got.P != nil {
		t.Errorf("null: %+v, %v; want E as it was and P nil", got, err)
	}
	if err := json.Unmarshal([]byte(`{"E": "5"}`), &got); err != nil || got.E != 5 {
		t.Errorf("escaped string: %v, %v", got.E, err)
	}
}

func FuzzEpoch(f *testing.F) {
	for _, s := range []string{"0:0", "1:4812", "32:1", "32767:281474976710655", "007:1", "9007199254740993", "-1", `"`, `\u0031`} {
		f.Add(s, int64(1))
	}
	f.Add("", int64(math.MaxInt64))
	f.Add("", int64(-1))
	f.Fuzz(func(t *testing.T, s string, n int64) {
		check := func(e shard.Epoch) {
			if e < 0 || e.Lineage() < 0 || e.Lineage() > shard.MaxLineage || e.Revision() < 0 || e.Revision() > shard.MaxRevision {
				t.Fatalf("out of range: %d", int64(e))
			}
			if got, err := shard.ParseEpoch(e.String()); err != nil || got != e {
				t.Fatalf("%s read as %s, %v", e, got, err)
			}
			if got, err := shard.ParseDecimal(e.Decimal()); err != nil || got != e {
				t.Fatalf("%s read as %s, %v", e.Decimal(), got, err)
			}
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			var got shard.Epoch
			if err := json.Unmarshal(b, &got); err != nil || got != e {
				t.Fatalf("%s read as %s, %v", b, got, err)
			}
		}
		if e, err := shard.ParseEpoch(s); err == nil {
			check(e)
		}
		if e, err := shard.ParseDecimal(s); err == nil {
			check(e)
		}
		var e shard.Epoch
		if json.Unmarshal([]byte(s), &e) == nil {
			check(e)
		}
		if n >= 0 {
			check(shard.Epoch(n))
		}
	})
}
