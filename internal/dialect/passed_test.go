package dialect

import (
	"testing"
	"testing/synctest"
	"time"
)

// What one token has passed in says nothing of another, and for a while only.
func TestPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Passed
		p.Note("accounts", 1, "a", 5, 77)
		for _, other := range []struct {
			group   string
			shard   int
			groupID string
			epoch   int64
		}{{"orders", 1, "a", 5}, {"accounts", 2, "a", 5}, {"accounts", 1, "b", 5}, {"accounts", 1, "a", 6}} {
			if args, short := p.Args(other.group, other.shard, other.groupID, other.epoch); short || args[2] != int64(0) {
				t.Errorf("%v: got %v, %t, want no generation", other, args, short)
			}
		}
		want := func(generation int64) {
			t.Helper()
			args, short := p.Args("accounts", 1, "a", 5)
			if args[0] != "accounts/1/a/5" || args[2] != generation || short != (generation != 0) {
				t.Errorf("got %v, %t, want generation %d", args, short, generation)
			}
		}
		want(77)
		time.Sleep(forgetAfter)
		want(77)
		time.Sleep(time.Nanosecond)
		want(0)
		p.Note("accounts", 1, "a", 5, 78)
		want(78)
		p.Note("accounts", 1, "a", 5, 0) // it is not set
		want(78)
		p.Forget("accounts", 1)
		want(0)
	})
}
