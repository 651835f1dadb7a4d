package router

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
)

func TestTableFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 4)
		g.join(shard.Member{ID: "a", Address: "a:1"})
		g.join(shard.Member{ID: "b", Address: "b:1"})
		first := g.claim("a", 0, 1, 2)
		table, _ := g.open()

		steps := []struct {
			name string
			do   func()
			want []string
		}{
			{"as listed", func() {}, []string{"a", "a", "a", ""}},
			{"granted", func() { g.claim("b", 3) }, []string{"a", "a", "a", "b"}},
			{"moved", func() { g.claim("b", 0) }, []string{"b", "a", "a", "b"}},
			{"released", func() { g.commit(cas.Delete(g.keys.Claim(1))) }, []string{"b", "", "a", "b"}},
			{"crashed", func() { g.die("b") }, []string{"", "", "a", ""}},
		}
		for _, s := range steps {
			s.do()
			synctest.Wait()
			if diff := cmp.Diff(s.want, owners(table)); diff != "" {
				t.Errorf("%s: owners (-want +got):\n%s", s.name, diff)
			}
		}

		m, e := table.Owner(g.keyOf(2))
		if m == nil || m.Address != "a:1" || e != first {
			t.Errorf("Owner: got %+v by %v, want a:1 by %v", m, e, first)
		}
		if m, e := table.Owner(g.keyOf(0)); m != nil || e != 0 {
			t.Errorf("Owner of an orphan: got %+v by %v, want nil by 0", m, e)
		}

		g.join(shard.Member{ID: "a", Address: "a:2"}) // its record changes, its claims don't
		synctest.Wait()
		if m, e := table.Owner(g.keyOf(2)); m == nil || m.Address != "a:2" || e != first {
			t.Errorf("Owner after its record changed: got %+v by %v, want a:2 by %v", m, e, first)
		}
	})
}

func TestTableOwnerAllocatesNothing(t *testing.T) {
	g := newGroup(t, 64)
	g.join(shard.Member{ID: "a"})
	g.claim("a", 7)
	table, _ := g.open()
	key := g.keyOf(7)
	if n := testing.AllocsPerRun(100, func() { table.Owner(key) }); n != 0 {
		t.Errorf("Owner allocates %v times, want 0", n)
	}
}

func TestTableOfNewGroupIsEmptyAndFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := emptyGroup(t, 2)
		table, _ := g.open()
		if diff := cmp.Diff([]string{"", ""}, owners(table)); diff != "" {
			t.Errorf("before anybody joined (-want +got):\n%s", diff)
		}
		g.config(3)
		g.join(shard.Member{ID: "a"})
		rev := g.claim("a", 0, 1)
		synctest.Wait()
		_, e := table.Owner(g.keyOf(1))
		want, err := shard.NewEpoch(3, rev.Revision())
		if err != nil {
			t.Fatal(err)
		}
		if e != want {
			t.Errorf("epoch: got %v, want %v", e, want)
		}
	})
}

func TestTableRelists(t *testing.T) {
	for _, why := range []error{cas.ErrCompacted, errors.New("connection reset")} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t, 2)
			g.join(shard.Member{ID: "a"})
			g.claim("a", 0, 1)
			table, c := g.open()
			synctest.Wait()
			c.Cut(true)
			g.commit(cas.Delete(g.keys.Claim(1)))
			if err := g.server.Compact(g.server.Revision()); err != nil {
				t.Fatal(err)
			}
			c.Break(why)
			c.Cut(false)
			time.Sleep(time.Second)
			if diff := cmp.Diff([]string{"a", ""}, owners(table)); diff != "" {
				t.Errorf("%v: owners (-want +got):\n%s", why, diff)
			}
			g.claim("a", 1)
			synctest.Wait()
			if diff := cmp.Diff([]string{"a", "a"}, owners(table)); diff != "" {
				t.Errorf("%v: owners after the new watch (-want +got):\n%s", why, diff)
			}
		})
	}
}

func TestTableMendsLostDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		g.join(shard.Member{ID: "a"})
		g.claim("a", 0, 1)
		table, c := g.open()
		c.Withhold(func(e cas.Event) bool { return e.Deleted })
		g.commit(cas.Delete(g.keys.Claim(1)))
		synctest.Wait()
		if owners(table)[1] != "a" {
			t.Fatal("the deletion was not lost: the test shows nothing")
		}
		c.Withhold(nil)
		time.Sleep(2 * digestEvery)
		if diff := cmp.Diff([]string{"a", ""}, owners(table)); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
	})
}

func TestTableWithoutStoreServesWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		g.join(shard.Member{ID: "a"})
		g.claim("a", 0, 1)
		table, c := g.open()
		time.Sleep(time.Hour) // nothing changes
		if age := table.Age(); age > 2*probeEvery {
			t.Errorf("Age with an idle store: got %v, want at most %v", age, 2*probeEvery)
		}

		c.Cut(true)
		g.commit(cas.Delete(g.keys.Claim(1)))
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{"a", "a"}, owners(table)); diff != "" {
			t.Errorf("cut off: owners (-want +got):\n%s", diff)
		}
		if age := table.Age(); age < time.Hour || age > time.Hour+2*probeEvery {
			t.Errorf("Age after an hour: got %v", age)
		}

		c.Cut(false)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"a", ""}, owners(table)); diff != "" {
			t.Errorf("back: owners (-want +got):\n%s", diff)
		}
	})
}

// A claim from before the lineage was raised is no longer its holder's to act under.
func TestTableRaisedLineage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.join(shard.Member{ID: "a"})
		g.claim("a", 0)
		table, _ := g.open()
		g.config(40)
		synctest.Wait()
		if m, e := table.Owner("k"); m != nil || e != 0 {
			t.Errorf("before the claim is made again: got %+v by %v, want nobody", m, e)
		}
		rev := g.claim("a", 0)
		synctest.Wait()
		if _, e := table.Owner("k"); e.Lineage() != 40 || e.Revision() != rev.Revision() {
			t.Errorf("epoch: got %v, want 40:%d", e, rev.Revision())
		}
	})
}

func TestTableNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.join(shard.Member{ID: "a"})
		g.join(shard.Member{ID: "b"})
		g.claim("a", 0)
		backup := g.server.Backup()
		g.claim("b", 0)
		var log lockedBuffer
		c := g.server.Client()
		defer c.Close()
		table, err := Open(t.Context(), c, g.decl, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()

		g.server.Restore(backup, 0)
		time.Sleep(10 * probeEvery)
		if got := owners(table)[0]; got != "b" {
			t.Errorf("after a restore: got owner %q, want b, the last known", got)
		}
		if age := table.Age(); age < 3*probeEvery {
			t.Errorf("Age after a restore: got %v, want it to grow", age)
		}
		if !strings.Contains(log.String(), "lineage") {
			t.Errorf("log: got %q, want a line that says what to do", log.String())
		}
		g.config(1)
		g.claim("a", 0)
		time.Sleep(time.Minute)
		if got := owners(table)[0]; got != "a" {
			t.Errorf("after the lineage was raised: got owner %q, want a", got)
		}
	})
}

func TestTableClosedStaysReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.join(shard.Member{ID: "a"})
		g.claim("a", 0)
		table, _ := g.open()
		waiting := table.turns.on(0)
		for range 2 {
			if err := table.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
		}
		<-waiting // nobody would wake them any more
		g.die("a")
		synctest.Wait()
		if got := owners(table)[0]; got != "a" {
			t.Errorf("closed: got owner %q, want a", got)
		}
	})
}

// lockedBuffer is a log that the test may read meanwhile.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(slices.Clone(l.b.Bytes()))
}
