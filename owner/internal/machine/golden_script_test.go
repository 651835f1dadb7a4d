package machine

import (
	"fmt"
	"strings"
)

// script is a golden file: comments, and blocks of commands with what they give. A block is some lines with a
// command each, then, if they give anything, a line of dashes and the output, up to the next empty line.
type script struct {
	items []item
}

// item is a line that is kept as it is, or a block.
type item struct {
	verbatim string
	*block
}

type block struct {
	line     int // of the first command
	commands []string
	output   []string
}

const dashes = "----"

// parseScript reads a golden file. It has to begin with a comment that says what the script shows, and to end with a
// block of nothing but expectations, which a rewrite leaves alone.
func parseScript(text string) (script, error) {
	var s script
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		if line == "" || line[0] == '#' {
			s.items = append(s.items, item{verbatim: line})
			i++
			continue
		}
		b := &block{line: i + 1}
		for i < len(lines) && lines[i] != "" && lines[i][0] != '#' && lines[i] != dashes {
			b.commands = append(b.commands, lines[i])
			i++
		}
		if i < len(lines) && lines[i] == dashes {
			for i++; i < len(lines) && lines[i] != ""; i++ {
				b.output = append(b.output, lines[i])
			}
		}
		if len(b.commands) == 0 {
			return script{}, fmt.Errorf("line %d: output of no command", b.line)
		}
		s.items = append(s.items, item{block: b})
	}
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "# ") || !strings.HasPrefix(lines[1], "# ") {
		return script{}, fmt.Errorf("line 1: a script begins with a comment of some lines that says what it shows")
	}
	last := s.items[len(s.items)-1].block
	if last == nil {
		return script{}, fmt.Errorf("line %d: a script ends with what it expects", len(lines))
	}
	for _, c := range last.commands {
		if !strings.HasPrefix(c, "expect ") {
			return script{}, fmt.Errorf("line %d: %q: a script ends with a block of nothing but expectations", last.line, c)
		}
	}
	return s, nil
}

// text is the file again.
func (s script) text() string {
	var out strings.Builder
	fresh := true // the line before is empty
	for _, it := range s.items {
		if it.block == nil {
			if it.verbatim != "" && !fresh {
				out.WriteByte('\n') // output ends at an empty line
			}
			out.WriteString(it.verbatim + "\n")
			fresh = true
			continue
		}
		out.WriteString(strings.Join(it.commands, "\n") + "\n")
		fresh = len(it.output) == 0
		if !fresh {
			out.WriteString(dashes + "\n" + strings.Join(it.output, "\n") + "\n")
		}
	}
	return out.String()
}
