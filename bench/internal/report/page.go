package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.html
var page string

// WriteHTML writes r as one page that needs nothing else: plots are SVG inside it, and it is readable in light and in dark.
func WriteHTML(w io.Writer, r *Report) error {
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"svg": func(t *Table) (template.HTML, error) {
			svg, err := SVG(t)
			return template.HTML(svg), err // ours, its texts escaped
		},
		"cell": Row.Cell,
		"harm": func(r Row, c Column) bool { return c.Safety && r.Values[c.Key] > 0 },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	return parsed.Execute(w, r)
}
