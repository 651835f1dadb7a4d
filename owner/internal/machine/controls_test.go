package machine

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
			failed, out := failsWithout(t, path, strings.Replace(string(code), c.old, c.new, 1))
			if !slices.Contains(failed, c.fails) {
				t.Errorf("without this rule %s passes; failed: %v\n%s", c.fails, failed, tail(out, 2000))
			}
			t.Logf("fails: %v", failed)
		})
	}
}

// failsWithout runs this package's tests with code in the place of the file at path.
func failsWithout(t *testing.T, path, code string) (failed []string, out string) {
	t.Helper()
	dir := t.TempDir()
	mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutant}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{mutant: []byte(code), overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", overlay, ".",
		"-timeout=2m", "-skip", "TestControls|TestSim")
	b, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(b), "FAIL") {
		t.Fatalf("%v\n%s", err, b)
	}
	for _, m := range regexp.MustCompile(`(?m)^--- FAIL: (\w+)`).FindAllStringSubmatch(string(b), -1) {
		failed = append(failed, m[1])
	}
	if len(failed) == 0 && err != nil {
		failed = []string{"no test: " + tail(string(b), 300)}
	}
	return failed, string(b)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
