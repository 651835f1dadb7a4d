package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteTable writes t for a terminal.
func WriteTable(w io.Writer, t *Table) {
	fmt.Fprintf(w, "\n%s\n  %s\n", t.Question, t.Conditions)
	grid := t.grid()
	widths := make([]int, len(grid[0]))
	for _, line := range grid {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range grid {
		var b strings.Builder
		for i, cell := range line {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("  " + cell + gap)
			} else {
				b.WriteString("  " + gap + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// grid is the table's cells, the heads first.
func (t *Table) grid() [][]string {
	head := []string{""}
	for _, c := range t.Columns {
		head = append(head, c.Name)
	}
	grid := [][]string{head}
	for _, r := range t.Rows {
		line := []string{r.Name}
		for _, c := range t.Columns {
			line = append(line, r.Cell(c.Key))
		}
		grid = append(grid, line)
	}
	return grid
}

// WriteMarkdown writes r's tables, with an image before each that has a plot: plots/ID.svg.
func WriteMarkdown(w io.Writer, r *Report) {
	fmt.Fprint(w, "| | |\n|---|---|\n")
	for _, f := range r.Machine {
		fmt.Fprintf(w, "| %s | %s |\n", f.Name, f.Value)
	}
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n### %s\n\n%s\n\n", t.Question, t.Conditions)
		if t.Plot != "" {
			fmt.Fprintf(w, "![%s](plots/%s.svg)\n\n", t.Question, t.ID)
		}
		grid := t.grid()
		for i, line := range grid {
			fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
			if i == 0 {
				fmt.Fprintf(w, "|---|%s\n", strings.Repeat("--:|", len(line)-1))
			}
		}
		for _, row := range t.Rows {
			if row.Note != "" {
				fmt.Fprintf(w, "\n%s: %s.", row.Name, row.Note)
			}
		}
		fmt.Fprintln(w)
	}
}
