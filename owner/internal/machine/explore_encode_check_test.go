package machine

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// xFields are all the fields of a machine: those that the exploration's encoder writes, and, after the bar, those that it leaves
// out because nothing depends on them that happens from here on.
var xFields = map[reflect.Type]string{
	reflect.TypeFor[Machine](): "view lineage groupID behind askAt member plan slots dirty waiting wake txns stagger leaving latchAt latched" +
		" | c keys now out touched running ended head", // head is for restores, which are not explored; running counts the slots
	reflect.TypeFor[membership](): "lease ttl asking former discarded revoking retryAt failures created joined txn wait left abandoned" +
		" renewing renewAt acks trust other otherUntil otherSure revoked tookOver |",
	reflect.TypeFor[ack]():        "rev until |",
	reflect.TypeFor[planner]():    "oldest at underWay void sent took wait coldSince joins orders strays queue unowned | longestTTL", // all have one
	reflect.TypeFor[seen]():       "created at |",
	reflect.TypeFor[plannerTxn](): "kind target shards |",
	reflect.TypeFor[transactions](): "open shardOpen planOpen starved fullUntil holdUntil wroteAt wrote probing probed probeAt refusedAt" +
		" | last intents", // names of transactions say nothing; intents are of one step
	reflect.TypeFor[transaction](): "kind shards lease puts sent view | head",
	reflect.TypeFor[stagger]():     "dark queue |",
	reflect.TypeFor[darkShard]():   "shard since |",
	reflect.TypeFor[slot](): "phase epoch rev used since until lost blamed returned drained err hung failed ended txn asked wait retryAt restAt" +
		" moveOut moveSince prep prepState avoidUntil wake | why", // a text for people
	reflect.TypeFor[asked](): "kind rev |",
	reflect.TypeFor[hung]():  "epoch returned drained |",
	reflect.TypeFor[layout.View](): "Rev Config Members Claims Moves Avoids Pins Drains Corpses" +
		" | Keys Cluster byLease held", // by Members and Claims
	reflect.TypeFor[layout.MoveState]():  "Move Created Lease | Rev",
	reflect.TypeFor[layout.ClaimState](): "Rev Lease |",
	reflect.TypeFor[layout.AvoidState](): "Created Lease |",
}

// TestExploreEncodesAll fails when a field is added that the encoder, and clone, have not been told of.
func TestExploreEncodesAll(t *testing.T) {
	for typ, names := range xFields {
		want := strings.Fields(strings.ReplaceAll(names, "|", ""))
		var got []string
		for i := range typ.NumField() {
			got = append(got, typ.Field(i).Name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-known to the encoder +there):\n%s", typ, diff)
		}
	}
}

// TestClone: a clone equals its machine and shares nothing with it that a step could change.
func TestClone(t *testing.T) {
	sc := xScope{nodes: 2, shards: 2, faults: 1, coarse: true}.ready()
	var p shard.Planner
	w := newXWorld(sc)
	machines := 0
	for i := range 60 {
		as := w.actions(nil)
		w = w.after(as[(i*7)%min(len(as), 3)], &p, nil)
		for _, n := range w.nodes {
			c := n.m.clone()
			machines++
			c.out = n.m.out
			c.touched = n.m.touched
			if !reflect.DeepEqual(n.m, c) {
				t.Fatalf("after %d actions: the clone of %s differs:\n%+v\n%+v", i, n.id, n.m, c)
			}
			c.out, c.touched = nil, layout.Touched{}
			shared(t, "Machine", reflect.ValueOf(n.m).Elem(), reflect.ValueOf(c).Elem())
		}
	}
	if machines < 60 {
		t.Fatalf("got %d machines to clone, want more", machines)
	}
}

// immutable are paths at which a clone may share.
var immutable = []string{".touched", ".out", "Machine.c.", "Machine.txns.open.shards", "Machine.plan.queue.shards", ".err", ".Err", ".Meta"}

func shared(t *testing.T, path string, a, b reflect.Value) {
	for _, ok := range immutable {
		if strings.Contains(path, ok) {
			return
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() {
			if a.Pointer() == b.Pointer() {
				t.Fatalf("%s is shared", path)
			}
			shared(t, path, a.Elem(), b.Elem())
		}
	case reflect.Map:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			t.Fatalf("%s is shared", path)
		}
		for _, k := range a.MapKeys() {
			shared(t, path, a.MapIndex(k), b.MapIndex(k))
		}
	case reflect.Slice:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			t.Fatalf("%s is shared", path)
		}
		for i := range a.Len() {
			shared(t, path, a.Index(i), b.Index(i))
		}
	case reflect.Struct:
		for i := range a.NumField() {
			shared(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	}
}
