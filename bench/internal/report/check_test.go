package report

import (
	"strings"
	"testing"
)

// zombies is a table with a lock, a misuse and a row of Tenure, that admit so many stale writes.
func zombies(lock, misuse, ours float64) *Report {
	t := &Table{ID: "zombie", Columns: []Column{{Key: "stale", Name: "stale", Safety: true}}, Rows: []Row{
		{Name: "lock"}, {Name: "no fence", Misuse: true}, {Name: "Tenure", Ours: true},
	}}
	for i, v := range []float64{lock, misuse, ours} {
		t.Rows[i].Set("stale", v)
	}
	return &Report{Tables: []*Table{t}}
}

func TestCheck(t *testing.T) {
	absent := zombies(1, 1, 0)
	absent.Tables[0].Rows[2].Values = nil
	failed := zombies(1, 1, 0)
	failed.Tables[0].Rows[2].FailedTrials = 1
	for name, test := range map[string]struct {
		report *Report
		want   string
	}{
		"as it should be":            {zombies(1, 1, 0), ""},
		"Tenure does harm":           {zombies(1, 1, 1), `row "Tenure": "stale" is 1, want 0`},
		"Tenure did not run":         {absent, "did not run"},
		"a trial of Tenure failed":   {failed, "1 trials failed"},
		"no lock shows the fault":    {zombies(0, 1, 0), "can't see the fault"},
		"the misuse shows no fault":  {zombies(1, 0, 0), `row "no fence": admitted nothing`},
		"nothing is asked, and fine": {&Report{}, ""},
	} {
		err := Check(test.report)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
