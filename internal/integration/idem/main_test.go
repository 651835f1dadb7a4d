package idem

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// require returns what the environment variable holds. Without it the test is skipped; but CI
// must not pass because a server was missing.
func require(t testing.TB, name string) string {
	t.Helper()
	if v := os.Getenv(name); v != "" {
		return v
	}
	how := name + " is not set: .ci/servers run go test ./... starts a server and sets it"
	if os.Getenv("CI") == "true" {
		t.Fatal(how)
	}
	t.Skip(how)
	return ""
}
