package sqlidem

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/idem"
)

// Who forgets to install the table is told so, also by SQLite, whose code for it is that of every fault in SQL.
func TestHint_TableMissing(t *testing.T) {
	for _, test := range []struct {
		text string
		want bool
	}{
		{"SQL logic error: no such table: tenure_idem (1)", true},
		{"SQL logic error: no such table: others (1)", false},
		{"SQL logic error: no such column: x (1)", false},
	} {
		missing := errors.New(test.text)
		db := sql.OpenDB(&server{rolledBack: make(chan struct{}), prepare: missing})
		defer db.Close()
		s, err := New(db, SQLite, Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, gotten := s.Get(t.Context(), "id")
		_, swapped := s.Swap(t.Context(), "id", 0, idem.Put{})
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, held := (&work{s: s, t: idem.Txn{ID: "id", Hold: true}}).hold(t.Context(), tx)
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"Get": gotten, "Swap": swapped, "DoTx": held} {
			if !errors.Is(err, missing) || strings.Contains(err.Error(), "call Store.Install") != test.want {
				t.Errorf("%s: got %v, want it to speak of Install: %t", what, err, test.want)
			}
		}
		if cas.OutcomeOf(gotten) != cas.NotApplied || cas.OutcomeOf(swapped) != cas.NotApplied {
			t.Errorf("got %s and %s, want both not applied", cas.OutcomeOf(gotten), cas.OutcomeOf(swapped))
		}
	}
}
