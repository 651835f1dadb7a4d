package dialect

import "fmt"

// Install runs Create, a statement at a time, unless probe finds everything there.
func (f *Fence) Install(probe func() error, exec func(stmt string) error) error {
	if probe() == nil {
		return nil
	}
	var failed error
	for _, stmt := range f.Create {
		if err := exec(stmt); err != nil {
			// Others may do so at once. Two that make one thing fail each other on Postgres, IF NOT EXISTS or not; but then it
			// is there.
			if err = exec(stmt); failed == nil {
				failed = err
			}
		}
	}
	missing := probe()
	switch {
	case missing == nil:
		return nil
	case failed != nil:
		return fmt.Errorf("%w; it was to make what is missing: %w", failed, missing)
	}
	return fmt.Errorf("what is there has other columns, or is of an older version: %w", missing)
}
