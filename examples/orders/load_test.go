package main

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/shard"
)

var group = shard.Group{Name: "customers", Shards: 4, Hash: shard.Murmur2}

func TestPlan(t *testing.T) {
	items := plan(group, 7, 1000)
	if !reflect.DeepEqual(items, plan(group, 7, 1000)) {
		t.Error("the same seed gives another plan")
	}
	if reflect.DeepEqual(items, plan(group, 8, 1000)) {
		t.Error("another seed gives the same plan")
	}
	type what struct {
		kind kind
		flaw flaw
	}
	spoilt := make(map[what]int)
	for i, it := range items {
		r := logged{place{kind: it.kind, partition: int32(group.Of(it.customer))}, it.customer, it.value}
		if it.flaw == misplaced {
			r.partition = (r.partition + 1) % int32(group.Shards)
		}
		if _, got := judge(group, r); got != it.flaw {
			t.Errorf("record %d is planned to be %q, and is %q", i, it.flaw, got)
		}
		if it.flaw == sound {
			continue
		}
		spoilt[what{it.kind, it.flaw}]++
		if i >= len(items)*4/5 {
			t.Errorf("record %d is spoilt, which may be too late for another to succeed after it", i)
		}
	}
	want := map[what]int{
		{orders, malformed}: 2, {orders, refused}: 1, {orders, misplaced}: 2,
		{payments, malformed}: 2, {payments, refused}: 2, {payments, misplaced}: 1,
	}
	if diff := cmp.Diff(want, spoilt, cmp.AllowUnexported(what{})); diff != "" {
		t.Errorf("spoilt (-want +got):\n%s", diff)
	}
}

func TestCustomersOf(t *testing.T) {
	for s, customers := range customersOf(group) {
		if len(customers) != perShard {
			t.Errorf("shard %d: got %d customers, want %d", s, len(customers), perShard)
		}
		for _, c := range customers {
			if group.Of(c) != s {
				t.Errorf("%s: got shard %d, want %d", c, s, group.Of(c))
			}
		}
	}
}
