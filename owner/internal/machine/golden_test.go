package machine

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what the golden scripts give now into testdata; their expectations have to hold all the same")

// TestGolden plays each script of testdata on a stage of real machines, and compares the trace. What a script is about
// stands in its expectations, and the invariants are checked at every step, so that a rewrite can't bless a violation.
// golden_script_test.go has the form of a script, golden_commands_test.go and golden_expect_test.go what can stand in it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseScript(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			playScript(t, file, s)
			if *rewrite && t.Failed() {
				t.Logf("not written:\n%s", s.text())
			}
			if !*rewrite || t.Failed() {
				return
			}
			if now := s.text(); now != string(text) {
				if err := os.WriteFile(file, []byte(now), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// playScript puts the script on. If the trace may be rewritten, it is so in s.
func playScript(t testing.TB, file string, s script) {
	t.Helper()
	g := newStage(t, file)
	differs := false
	for _, it := range s.items {
		if it.block == nil {
			continue
		}
		got := g.block(it.block)
		switch {
		case *rewrite:
			it.output = got
		case !differs:
			if diff := cmp.Diff(it.output, got); diff != "" {
				differs = true // what follows differs for no other reason
				t.Errorf("%s:%d: %s: (-want +got; -rewrite if that is meant)\n%s", file, it.line, strings.Join(it.commands, "; "), diff)
			}
		}
	}
	g.over()
}

// A script has a form, and is written as it was read.
func TestGolden_ScriptForm(t *testing.T) {
	for name, text := range map[string]string{
		"no comment":           "run\n\nexpect owner 0 none\n",
		"no expectation":       "# a\n# b\nrun\n",
		"more than expecting":  "# a\n# b\nrun\nexpect owner 0 none\n",
		"output of no command": "# a\n# b\n----\nx\n\nexpect owner 0 none\n",
	} {
		if _, err := parseScript(text); err == nil {
			t.Errorf("%s: parsed", name)
		}
	}
	text := "# a\n# b\n\nboot a\nrun\n----\nx\ny\n\n# c\nexpect owner 0 none\n"
	s, err := parseScript(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, s.text()); diff != "" {
		t.Errorf("(-file +written)\n%s", diff)
	}
}

// A script can't rot: a command that makes no sense where it stands fails, and so does an expectation that does not hold,
// whether or not the traces are being rewritten.
func TestGolden_ScriptsCantRot(t *testing.T) {
	passes := "expect serving 0 a"
	for _, commands := range []string{
		passes, "dance", "run 10", "run 1s 1s", "run until never", "boot a", "boot c twice", "shards 2", "show off",
		"pause c", "heal a", "continue a", "crash c", "return a", "return b 0", "fail a 0", "break a start 0", "break a sleep 0 x", "mend a start 0",
		"request in b 0", "request out a 0", "request 9", "write b 0",
		"hold request a", "hold request c JOIN", "hold prayer a 0", "release request a TRANSFER", "lose ready a 0", "drop reply a JOIN",
		"hold request a TRANSFER; run", "lose reply a TRANSFER; run", "drop watch a; run",
		"store starts", "store empties", "store restores", "store explodes", "operator dreams", "operator unpins 0", "operator undrains a",
		"operator deletes claims/1", "operator pins 1 to a",
		"expect owner 0 b", "expect owner 0 c", "expect serving 0 none", "expect epoch 0 rises", "expect epoch 0 falls", "expect move 0 b",
		"expect avoid 0 a", "expect planner b", "expect loads 1 1", "expect lineage 0 1", "crash a; expect alive a",
		"expect a 0 closes", "expect a 0 dances", "expect c joins", "expect a JOIN applied 2 times", "expect a JOIN applied many times",
		"expect no a RENEW sent", "expect a exits", "expect a exits Stage", "expect a 0 closes before a 0 ends", "expect a TRANSFER",
	} {
		r := &refusing{TB: t}
		refused := r.refuses(func() {
			s := script{}
			s.items = append(s.items, item{block: &block{commands: []string{"quietly given a, b"}}})
			s.items = append(s.items, item{block: &block{commands: strings.Split("quietly run 3s; "+commands, "; ")}})
			playQuietly(r, s)
		})
		if refused == (commands == passes) {
			t.Errorf("%q: refused: %v", commands, refused)
		}
	}
}

// playQuietly puts a script on that has no output to compare.
func playQuietly(t testing.TB, s script) {
	g := newStage(t, "script")
	for _, it := range s.items {
		g.block(it.block)
	}
	g.over()
}

// refusing notes failures instead of failing.
type refusing struct {
	testing.TB
	failed bool
}

func (r *refusing) Errorf(string, ...any) { r.failed = true }

func (r *refusing) Fatalf(string, ...any) { panic(r) }

func (r *refusing) refuses(fn func()) (yes bool) {
	defer func() {
		if p := recover(); p != nil {
			if p != any(r) {
				panic(p)
			}
			yes = true
		}
	}()
	fn()
	return r.failed
}
