// Package storetest is the contract of a cas.Store as tests. Every store of the library
// passes it: memkv among the ordinary tests, etcdkv on a real etcd.
//
// A store's package gives a [Suite]: how to open a store, and how to make the faults that
// the contract speaks of. A fault that can't be made there is named in Lacks, and the tests
// that need it are reported as skipped, with the reason; one that is neither given nor named
// fails the suite.
package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// Fault is something that a harness can do to its store.
type Fault string

// The faults.
const (
	Compaction  Fault = "compaction"   // Harness.Compact
	LostReply   Fault = "lost reply"   // Harness.LoseReply
	LostRequest Fault = "lost request" // Harness.LoseRequest
	Partition   Fault = "partition"    // Harness.Cut
	Refusal     Fault = "refusal"      // Harness.Refuse
	NoSpace     Fault = "no space"     // Harness.Fill
)

// Suite runs the contract.
type Suite struct {
	// Open returns a harness on an empty store, for one test.
	Open func(t *testing.T) Harness
	// Lacks names the faults that the harness can't make.
	Lacks []Fault
	// Bubble runs a test's body, in a synctest bubble for stores that live in the process.
	// Defaults to running it.
	Bubble func(t *testing.T, body func(*testing.T))
}

// Harness is a store and what can be done to it. The stores are closed by whoever opened them.
type Harness struct {
	Store cas.Store // suffers the faults
	Other cas.Store // another client of the same server, which suffers none

	MinTTL time.Duration // the shortest lease
	Late   time.Duration // how long after its TTL a lease may still be there

	Compact     func(t *testing.T, rev int64) // the server throws away what is before rev
	LoseReply   func(t *testing.T)            // the next write is carried out and its reply lost
	LoseRequest func(t *testing.T)            // the next write, of at least 16 KiB, does not arrive
	Cut         func(cut bool)                // Store from its server
	Refuse      func(refuse bool)             // Store's connections
	Fill        func(t *testing.T, full bool) // the server has no space left
}

func (h Harness) can() map[Fault]bool {
	return map[Fault]bool{
		Compaction:  h.Compact != nil,
		LostReply:   h.LoseReply != nil,
		LostRequest: h.LoseRequest != nil,
		Partition:   h.Cut != nil,
		Refusal:     h.Refuse != nil,
		NoSpace:     h.Fill != nil,
	}
}

// test is one clause of the contract.
type test struct {
	name  string
	needs []Fault
	run   func(t *testing.T, h Harness)
}

// Run runs every clause as a subtest of t.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	if s.Bubble == nil {
		s.Bubble = func(t *testing.T, body func(*testing.T)) { body(t) }
	}
	if len(s.Lacks) > 0 {
		t.Logf("not shown here, because the harness can't make it: %v", s.Lacks)
	}
	for _, c := range slices.Concat(commitTests, leaseTests, readTests, watchTests, faultTests, lifeTests) {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range c.needs {
				if slices.Contains(s.Lacks, f) {
					t.Skipf("the harness lacks: %s", f)
				}
			}
			s.Bubble(t, func(t *testing.T) {
				h := s.Open(t)
				for f, can := range h.can() {
					if lacks := slices.Contains(s.Lacks, f); can == lacks {
						t.Fatalf("harness can make %q: %v, and names it in Lacks: %v", f, can, lacks)
					}
				}
				c.run(t, h)
			})
		})
	}
}

func keys(entries []cas.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Key + " ")
	}
	return strings.TrimSpace(b.String())
}
