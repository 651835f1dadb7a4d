package idem_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A problem's type is a link to its heading in README.md.
func TestREADME_HasEachProblem(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(string(readme)) {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			have = append(have, strings.TrimSpace(name))
		}
	}
	sources, err := filepath.Glob("http*.go")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`problem\{(?:status: )?http\.Status\w+, (?:name: )?"([a-z-]+)"`)
	var want []string
	for _, file := range sources {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(source), -1) {
			want = append(want, m[1])
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	slices.Sort(have)
	if len(want) < 12 || !slices.Equal(have, want) {
		t.Errorf("headings in README.md: got %q, want one for each problem: %q", have, want)
	}
}
