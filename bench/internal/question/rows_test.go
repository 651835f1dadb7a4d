package question

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/moving"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/zombie"
)

// What takes too long is not left out in silence.
func TestSkip_SaysWhatWasNotRun(t *testing.T) {
	rest, rows := skip([]zombie.Kind{{Name: "short", TTL: 2 * time.Second}, {Name: "long", TTL: 45 * time.Second}}, zombie.Tolerable)
	if len(rest) != 1 || rest[0].Name != "short" {
		t.Errorf("got %v left, want the short one", rest)
	}
	if len(rows) != 1 || rows[0].Name != "long" || rows[0].Cell("killed") != "not run" || !strings.Contains(rows[0].Note, "45s") {
		t.Errorf("got %+v, want a row that says why", rows)
	}
}

// A trial that failed is told, and those that didn't still count; of none there are no figures, so that Check can refuse the row.
func TestMovedRow(t *testing.T) {
	results, errs := rotate(2, 2, func(i, round int) (moving.Result, error) {
		if i == 0 || round == 1 {
			return moving.Result{Work: 5, Lost: 70}, errors.New("boom")
		}
		return moving.Result{Work: 3, Left: []time.Duration{time.Millisecond, 3 * time.Millisecond}}, nil
	})
	none, some := movedRow(report.Row{}, results[0], errs[0]), movedRow(report.Row{}, results[1], errs[1])
	if _, ok := none.Values["lost"]; ok || none.Cell("moved") != "did not run" {
		t.Errorf("of no trial: got %+v", none)
	}
	if some.Values["lost"] != 70 || some.FailedTrials != 1 || some.Values["work"] != 3 || some.Values["left"] != 2 || some.Values["left_max"] != 3 || !strings.Contains(some.Note, "boom") {
		t.Errorf("of one trial of two: got %+v", some)
	}
}

// A count of harm is of nothing without the trials beside it; of no trial it is not 0.
func TestZombie_SaysOfHowManyTrials(t *testing.T) {
	outcomes := []zombie.Outcome{{Stale: true, Told: "ok"}, {Stale: true, Told: "ok"}, {Told: "fence: fenced"}}
	some, none := pausedRow(trials{outcomes: outcomes}), pausedRow(trials{err: errors.New("boom")})
	if some.Cell("stale") != "2 of 3" || some.Values["stale"] != 2 || some.Cell("trials") != "3" {
		t.Errorf("of three trials: got %+v", some)
	}
	if _, ok := none.Values["stale"]; ok || none.Cell("trials") != "did not run" {
		t.Errorf("of no trial: got %+v", none)
	}
}

// What is not known is no 0, and Check refuses it of Tenure.
func TestLoadRow_WithoutASum(t *testing.T) {
	r := measure.Result{Name: "Tenure", Ours: true, Rates: []float64{1}, Hist: hdrhistogram.New(1, 1000, 3), Unknown: errors.New("boom")}
	if row := loadRow(r, r); row.Cell("lost") != "–" || row.Cell("doubled") != "–" {
		t.Errorf("got %+v", row)
	}
}
