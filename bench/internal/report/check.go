package report

import (
	"errors"
	"fmt"
)

// Check says what of r would make a reader doubt Tenure, or the measurement: harm in a row of Tenure, a row of Tenure that did
// not run, or no harm where there must be some (a table that can't show a fault proves nothing). Rates play no part.
func Check(r *Report) error {
	var faults []error
	refuse := func(t *Table, row Row, format string, args ...any) {
		faults = append(faults, fmt.Errorf("report: table %s, row %q: %s", t.ID, row.Name, fmt.Sprintf(format, args...)))
	}
	for _, t := range r.Tables {
		harmed := 0
		for _, row := range t.Rows {
			harm := false
			if row.Ours && row.FailedTrials > 0 {
				refuse(t, row, "%d trials failed: %s", row.FailedTrials, row.Note)
			}
			for _, c := range t.Columns {
				if !c.Safety {
					continue
				}
				v, ok := row.Values[c.Key]
				harm = harm || v > 0
				switch {
				case row.Ours && !ok:
					refuse(t, row, "has no %q: it did not run: %s", c.Name, row.Note)
				case row.Ours && v > 0:
					refuse(t, row, "%q is %g, want 0", c.Name, v)
				}
			}
			if harm {
				harmed++
			}
			if t.ID == "zombie" && row.Misuse && !harm {
				refuse(t, row, "admitted nothing: the trial can't see the fault")
			}
		}
		if (t.ID == "zombie" || t.ID == "lost") && harmed < 2 {
			faults = append(faults, fmt.Errorf("report: table %s: harm in %d rows, want locks and mistakes that show it: the trial can't see the fault", t.ID, harmed))
		}
	}
	return errors.Join(faults...)
}
