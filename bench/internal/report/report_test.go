package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sample() *Report {
	t := &Table{
		ID: "hot", Question: "Who is <fast> & right?", Conditions: "fsync on", Plot: "rate", Log: true,
		Columns: []Column{{Key: "rate", Name: "requests/s"}, {Key: "lost", Name: "lost", Safety: true}},
		Rows:    []Row{{Name: "lock"}, {Name: "Tenure", Ours: true, Note: "<b>"}, {Name: "absent"}},
	}
	t.Rows[0].Set("rate", 1234.5)
	t.Rows[0].Set("lost", 3)
	t.Rows[1].Set("rate", 50000)
	t.Rows[1].Set("lost", 0)
	t.Rows[2].Set("rate", math.NaN())
	t.Rows[2].Say("rate", "did not run")
	return &Report{Title: "T", Tables: []*Table{t}}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", 0.0123: "0.012", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234567: "1,234,567", -1234: "-1,234",
	} {
		if got := Number(v); got != want {
			t.Errorf("%g: got %q, want %q", v, got, want)
		}
	}
}

func TestWriteTable(t *testing.T) {
	var b strings.Builder
	WriteTable(&b, sample().Tables[0])
	want := `
Who is <fast> & right?
  fsync on
           requests/s  lost
  lock          1,235     3
  Tenure       50,000     0
  absent  did not run     –
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What can't be a number in JSON is left away, and the rest can be read again.
func TestWriteJSON_CanBeReadAgain(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, sample()); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(b.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if got := r.Tables[0].Rows[1].Values["rate"]; got != 50000 {
		t.Errorf("rate: got %g, want 50000", got)
	}
}

func TestSVG_IsWellFormedAndTakesThePagesColour(t *testing.T) {
	table := sample().Tables[0]
	lines := &Table{ID: "l", Question: "q", Plot: "y", X: "x", Lines: true, Rows: []Row{{Name: "a"}, {Name: "a"}}}
	for i := range lines.Rows {
		lines.Rows[i].Set("x", float64(i+1))
		lines.Rows[i].Set("y", float64(i+1))
	}
	empty := &Table{ID: "e", Question: "q", Plot: "y", Log: true, Rows: []Row{{Name: "a"}}}
	for _, table := range []*Table{table, lines, empty} {
		svg, err := SVG(table)
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(strings.NewReader(svg))
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", table.ID, err)
		}
		if (table.Log || table.Lines) && !strings.Contains(svg, "log scale") {
			t.Errorf("%s: does not say that its axis is logarithmic", table.ID)
		}
		if !strings.Contains(svg, "currentColor") || strings.Contains(svg, "#000000") || strings.Contains(svg, "#-") {
			t.Errorf("%s: a colour of its own for text or background: %.600s", table.ID, svg)
		}
	}
}

func TestWriteHTML_EscapesAndNeedsNothingElse(t *testing.T) {
	var b strings.Builder
	if err := WriteHTML(&b, sample()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"Who is &lt;fast&gt; &amp; right?", "&lt;b&gt;", `class="harm">3<`, "prefers-color-scheme: dark", "<svg"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, fetched := range []string{" src=", "<link", "@import", "url("} {
		if strings.Contains(page, fetched) {
			t.Errorf("the page fetches something: %q", fetched)
		}
	}
}

func TestInsert(t *testing.T) {
	document := "head\n" + begin + "\nold\n" + end + "\ntail\n"
	for range 2 {
		var err error
		if document, err = Insert(document, "new"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff("head\n"+begin+"\n\nnew\n"+end+"\ntail\n", document); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := Insert("nothing here", "new"); err == nil {
		t.Error("without a place: got nil, want an error")
	}
}
