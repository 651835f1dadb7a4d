package report

import (
	"fmt"
	"strings"
)

const (
	begin = "<!-- results: written by go run ./bench -markdown, not by hand -->"
	end   = "<!-- end of results -->"
)

// Insert replaces what stands in document between the two comments that mark the results.
func Insert(document, results string) (string, error) {
	head, rest, ok := strings.Cut(document, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("report: no place for the results: want lines %q and %q", begin, end)
	}
	return head + begin + "\n\n" + results + "\n" + end + tail, nil
}
