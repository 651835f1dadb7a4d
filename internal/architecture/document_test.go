package architecture

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// checkExcerpts reports the Go code blocks of a document that don't stand, word for word, in one of
// the files: what a reader copies must have been compiled.
func checkExcerpts(name, document string, files map[string]string) []string {
	var faults []string
	for _, m := range fence.FindAllStringSubmatch(document, -1) {
		if m[1] != "go" {
			continue
		}
		found := false
		for _, text := range files {
			// From the beginning of a line on, so that no half of one passes.
			found = found || strings.Contains("\n"+text, "\n"+m[2])
		}
		if !found {
			first, _, _ := strings.Cut(m[2], "\n")
			faults = append(faults, fmt.Sprintf("%s: the Go block that begins with %q stands in no compiled file", name, first))
		}
	}
	return faults
}

// checkLinks reports links of a document to files of this tree that are not there.
func checkLinks(name, document string, exists func(string) bool) []string {
	var faults []string
	for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(document, ""), -1) {
		target, _, _ := strings.Cut(m[1], "#")
		if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		if to := path.Join(path.Dir(name), target); !exists(to) {
			faults = append(faults, fmt.Sprintf("%s: links to %s, which is not there", name, to))
		}
	}
	return faults
}
