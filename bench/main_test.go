package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWants(t *testing.T) {
	for only, want := range map[string]bool{"": true, "zo": true, "hot,zombie": true, "hot": false} {
		if got := (&session{options: options{only: only}}).wants("zombie"); got != want {
			t.Errorf("-only %q: got %t, want %t", only, got, want)
		}
	}
}
