package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
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

// readBack reads what was written, as those will who use it: the results, and a page that has every question.
func readBack(o options, r *report.Report) (*report.Report, error) {
	if o.html != "" {
		page, err := os.ReadFile(o.html)
		if err != nil {
			return nil, err
		}
		for _, t := range r.Tables {
			if !bytes.Contains(page, []byte(html.EscapeString(t.Question))) {
				return nil, fmt.Errorf("bench: %s has no table for %q", o.html, t.Question)
			}
		}
	}
	if o.json == "" {
		return r, nil
	}
	results, err := os.ReadFile(o.json)
	if err != nil {
		return nil, err
	}
	var read report.Report
	d := json.NewDecoder(bytes.NewReader(results))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		return nil, fmt.Errorf("bench: read %s: %w", o.json, err)
	}
	if len(read.Tables) != len(r.Tables) || len(read.Tables) == 0 {
		return nil, fmt.Errorf("bench: %s has %d tables, want %d, and more than none", o.json, len(read.Tables), len(r.Tables))
	}
	return &read, nil
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
