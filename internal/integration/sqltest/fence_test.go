package sqltest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/internal/fencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFenceSQLite(t *testing.T)   { fencetest.Run(t, SQLite(t)) }
func TestFencePostgres(t *testing.T) { fencetest.Run(t, Postgres(t)) }
func TestFenceMariaDB(t *testing.T)  { fencetest.Run(t, MariaDB(t)) }

func TestCase_etcd11456_PausedHolderWakesAndWrites(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { fencetest.PausedHolder(t, SQLite(t)) })
	t.Run("Postgres", func(t *testing.T) { fencetest.PausedHolder(t, Postgres(t)) })
	t.Run("MariaDB", func(t *testing.T) { fencetest.PausedHolder(t, MariaDB(t)) })
}
