package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tenure-go/tenure/bench/internal/report"
)

// write puts the results into the files that were asked for.
func write(o options, r *report.Report) error {
	if o.json != "" {
		var b bytes.Buffer
		if err := report.WriteJSON(&b, r); err != nil {
			return err
		}
		if err := os.WriteFile(o.json, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if o.html != "" {
		var b bytes.Buffer
		if err := report.WriteHTML(&b, r); err != nil {
			return err
		}
		if err := os.WriteFile(o.html, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if o.markdown != "" {
		return markdown(o.markdown, r)
	}
	return nil
}

// intoReadme puts results into the document, or makes one of them alone.
func intoReadme(file, results string) error {
	document, err := os.ReadFile(file)
	if err == nil {
		results, err = report.Insert(string(document), results)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(results), 0o644)
}

// markdown writes tables into dir's README.md, and the plots beside it.
func markdown(dir string, r *report.Report) error {
	if err := os.MkdirAll(filepath.Join(dir, "plots"), 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	report.WriteMarkdown(&b, r)
	if err := intoReadme(filepath.Join(dir, "README.md"), b.String()); err != nil {
		return err
	}
	for _, t := range r.Tables {
		svg, err := report.SVG(t)
		if err != nil {
			return err
		}
		if svg == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "plots", t.ID+".svg"), []byte(svg+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
