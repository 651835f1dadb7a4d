package architecture

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// noNames are names that say nothing of what is inside.
var noNames = []string{"util", "utils", "common", "base", "helper", "helpers", "types", "misc"}

// checkName reports a file or directory whose name, or that of one above it, says nothing.
func checkName(name string) []string {
	for _, part := range strings.Split(name, "/") {
		stem := strings.TrimSuffix(strings.TrimSuffix(part, path.Ext(part)), "_test")
		if slices.Contains(noNames, stem) {
			return []string{fmt.Sprintf("%s: %q says nothing of what is inside: name it after the concept", name, stem)}
		}
	}
	return nil
}

// machinePath matches an absolute path that is one machine's, such as a home directory. It is put
// together so that it does not match itself.
var machinePath = regexp.MustCompile(`(^|[^\w./~$}-])/(` + strings.Join([]string{"root", "home", "work", "Users"}, "|") + `)/\w`)

// checkText reports what no file may hold, whatever its format.
func checkText(name string, text string) []string {
	var faults []string
	for i, line := range strings.Split(text, "\n") {
		if p := machinePath.FindString(line); p != "" {
			faults = append(faults, fmt.Sprintf("%s:%d: %q: a path of somebody's machine", name, i+1, strings.TrimSpace(p)))
		}
		if path.Ext(name) == ".md" {
			if r, ok := foreignLetter(line); ok {
				faults = append(faults, fmt.Sprintf("%s:%d: %q: documents are English", name, i+1, r))
			}
		}
		if strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") {
			faults = append(faults, fmt.Sprintf("%s:%d: a merge's conflict mark", name, i+1))
		}
	}
	if strings.Contains(text, "\r\n") {
		faults = append(faults, fmt.Sprintf("%s: lines end with CRLF: want LF", name))
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		faults = append(faults, fmt.Sprintf("%s: the last line does not end", name))
	}
	return faults
}
