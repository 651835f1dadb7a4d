package servers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("export A='postgres://x/y?z=1'\n\nexport B='127.0.0.1:1'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := environment(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "postgres://x/y?z=1", "B": "127.0.0.1:1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
