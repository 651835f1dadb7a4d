// Package report holds what was measured, and writes it as text, JSON, Markdown and as one page of HTML with plots.
package report

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
)

// Report is one run.
type Report struct {
	Title   string   `json:"title"`
	When    string   `json:"when"`
	Quick   bool     `json:"quick"`
	Machine []Fact   `json:"machine"`
	Tables  []*Table `json:"tables"`
}

// Fact is something that a reader must know to judge the figures.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Table answers one question.
type Table struct {
	ID         string   `json:"id"`
	Question   string   `json:"question"`
	Conditions string   `json:"conditions"` // durability and topology, the same for all its rows
	Columns    []Column `json:"columns"`
	Rows       []Row    `json:"rows"`
	Plot       string   `json:"-"` // the column that is drawn; "" draws nothing
	Log        bool     `json:"-"` // on a logarithmic axis
	Lines      bool     `json:"-"` // as lines over the column that Plot's rows share, named X
	X          string   `json:"-"`
}

// Column describes the cells below it.
type Column struct {
	Key    string `json:"key"` // as in Row.Values and Row.Texts
	Name   string `json:"name"`
	Safety bool   `json:"safety,omitempty"` // a count of harm: Tenure's must be 0
}

// Row is one contender.
type Row struct {
	Name   string             `json:"name"`
	Ours   bool               `json:"ours"`
	Misuse bool               `json:"misuse,omitempty"` // used as nobody should, to show what goes wrong then
	Values map[string]float64 `json:"values"`
	Texts  map[string]string  `json:"texts,omitempty"` // where a number does not say it
	Note   string             `json:"note,omitempty"`

	// FailedTrials came to no end, and what they did is in no figure but those of harm.
	FailedTrials int `json:"failed_trials,omitempty"`
}

// Set stores a value. NaN and infinities, which JSON can't hold, are left away.
func (r *Row) Set(key string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if r.Values == nil {
		r.Values = map[string]float64{}
	}
	r.Values[key] = v
}

// Say stores a text, which is shown in place of the value.
func (r *Row) Say(key, text string) {
	if r.Texts == nil {
		r.Texts = map[string]string{}
	}
	r.Texts[key] = text
}

// Cell is what is shown under a column.
func (r Row) Cell(key string) string {
	if s, ok := r.Texts[key]; ok {
		return s
	}
	if v, ok := r.Values[key]; ok {
		return Number(v)
	}
	return "–"
}

// Number is v with three significant digits, or all of them before the point.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a) && a < 1000 || a >= 100:
		return group(strconv.FormatFloat(math.Round(v), 'f', 0, 64))
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

// group separates thousands.
func group(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// WriteJSON writes r as one JSON object.
func WriteJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	return e.Encode(r)
}
