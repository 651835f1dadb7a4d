package machine

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var runControls = flag.Bool("controls", false, "take each rule out of the code in turn, and see its test fail: some minutes")

// TestControls: a test that can't fail proves nothing. For each rule, the code without it fails the test that the table
// names; docs/negative-controls.md is the table for readers. By default it only sees to it that the table fits the code.
func TestControls(t *testing.T) {
	for _, c := range controls {
		t.Run(strings.ReplaceAll(c.rule, " ", "_"), func(t *testing.T) {
			path, err := filepath.Abs(c.file)
			if err != nil {
				t.Fatal(err)
			}
			code, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(code), c.old); n != 1 {
				t.Fatalf("%s has %d times %q: the table is out of date", c.file, n, c.old)
			}
			if !*runControls {
				return
			}
			if out := withOverlay(t, map[string]string{path: strings.Replace(string(code), c.old, c.new, 1)}, c.fails); !fails(out, c.fails) {
				t.Errorf("without this rule %s passes:\n%s", c.fails, tail(out, 2000))
			}
		})
	}
}

// fails reports whether out says that the test failed, or that it panicked.
func fails(out, test string) bool {
	return regexp.MustCompile(`(?m)^--- FAIL: `+test+`\b`).MatchString(out) || strings.Contains(out, "\npanic: ")
}

// withOverlay runs this package's tests of a pattern with code in the place of files.
func withOverlay(t *testing.T, files map[string]string, run string, flags ...string) (out string) {
	t.Helper()
	dir := t.TempDir()
	replace := make(map[string]string)
	for path, code := range files {
		mutant := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(mutant, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = mutant
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"test", "-vet=off", "-overlay", overlay, ".", "-timeout=5m", "-run", "^(" + run + ")$"}, flags...)
	b, err = exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil && !strings.Contains(string(b), "FAIL") || strings.Contains(string(b), "[build failed]") {
		t.Fatalf("%v\n%s", err, b)
	}
	return string(b)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
