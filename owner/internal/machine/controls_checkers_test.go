package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// edit takes something out of the code.
type edit struct{ file, old, new string }

// pillars are the rules of which the protocol's first model showed that it falls without any one of them. They are held not by a test of
// their own, but by what knows nothing of them: the exploration and the simulation, which look only at the
// invariants. (The fence is not the machine's: see TestExplore_ChecksTheFence.)
var pillars = []struct {
	rule  string
	edits []edit
}{
	{"trust ends before the lease can (I3)", []edit{{"membership.go", "until: sent + l.TTL - Margin(l.TTL)", "until: sent + l.TTL + Margin(l.TTL)"}}},
	{"the wait for the old handler", []edit{{"tenure.go", "!sl.returned || !sl.drained {", "!sl.drained {"}}},
	{"an epoch above all used", []edit{{"steer.go", "case epoch > sl.used:", "case epoch != 0:"}}},
	{"GRANT compares: the claim is absent", []edit{{"plantxn.go", "			ifs(cas.Absent(k.Claim(s)))\n", ""}}},
	{"GRANT, MOVE, TRANSFER compare: the target", []edit{
		{"plantxn.go", "ifs(cas.AtRev(k.Member(t.target), to.Rev))", "_ = to.Rev"},
		{"commit.go", "ifs(m.configCond(), cas.AtRev(k.Member(target), to.Rev))", "ifs(m.configCond())"},
	}},
	{"gates are closed before LEAVE", []edit{{"membership.go", "	m.loseAll(reason)\n	m.member.discarded", "	m.member.discarded"}}},
	{"what was sent is never used again", []edit{{"steer.go", "		sl.used = max(sl.used, epoch)\n		mv", "		mv"}}},
	{"TRANSFER compares: the claim and the move", []edit{
		{"commit.go", "			ifs(cas.AtRev(k.Claim(s), m.view.Claims[s].Rev), cas.CreatedAt(k.Move(s), m.view.Moves[s].Created))\n", ""},
	}},
	{"a move whose source died goes: by GRANT or by CANCEL", []edit{
		{"plantxn.go", "claim, to.Lease), cas.Delete(k.Move(s)))", "claim, to.Lease))"},
		{"plantxn.go", `	m.enqueue(Cancel, "", cancels)`, "	_ = cancels"},
		{"planner.go", `	m.enqueue(Cancel, "", sortedUnique(stale))`, "	stale = nil"},
	}},
	{"who can't start a shard avoids it", []edit{{"commit.go", "then(cas.Delete(k.Claim(s)), avoid(s))", "then(cas.Delete(k.Claim(s)))"}}},
	{"P: only the oldest member's plan lands (I7)", []edit{
		{"plantxn.go", "cas.Txn{If: []cas.Cond{cas.CreatedAt(k.Member(m.c.Member.ID), m.member.created)}}", "cas.Txn{}"},
	}},
}

// TestControls_Pillars: without one of these rules, the exploration or the simulation finds a violation.
func TestControls_Pillars(t *testing.T) {
	for _, p := range pillars {
		t.Run(strings.ReplaceAll(p.rule, " ", "_"), func(t *testing.T) {
			files := make(map[string]string)
			for _, e := range p.edits {
				path, err := filepath.Abs(e.file)
				if err != nil {
					t.Fatal(err)
				}
				code, ok := files[path]
				if !ok {
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					code = string(b)
				}
				if n := strings.Count(code, e.old); n != 1 {
					t.Fatalf("%s has %d times %q: the table is out of date", e.file, n, e.old)
				}
				files[path] = strings.Replace(code, e.old, e.new, 1)
			}
			if !*runControls {
				return
			}
			found := false
			for _, checker := range []struct {
				test  string
				flags []string
			}{{"TestExplore", nil}, {"TestSim", []string{"-sim.runs=20000"}}} {
				out := withOverlay(t, files, checker.test, checker.flags...)
				if fails(out, checker.test) {
					found = true
					t.Logf("%s: %s", checker.test, violated(out))
				} else {
					t.Logf("%s does not see it", checker.test)
				}
			}
			if !found {
				t.Error("nothing was found wrong without this rule")
			}
		})
	}
}

// violated is the line of out that says what is wrong.
func violated(out string) string {
	for _, line := range regexp.MustCompile(`(?m)^.*_test\.go:\d+: .*$|^panic: .*$`).FindAllString(out, -1) {
		if !strings.Contains(line, "complete;") {
			return strings.TrimSpace(line)
		}
	}
	return tail(out, 300)
}
