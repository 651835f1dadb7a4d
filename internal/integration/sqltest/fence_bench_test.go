package sqltest

import (
	"database/sql"
	"testing"

	"github.com/tenure-go/tenure/owner/fence"
)

// BenchmarkTx is one small update per transaction: plain, guarded, and guarded without the round
// trips for SQLConfig.Idle. What the fence costs is the difference.
func BenchmarkTx(b *testing.B) {
	for name, server := range map[string]func(testing.TB) Server{
		"sqlite": SQLite, "postgres": Postgres, "mariadb": MariaDB,
	} {
		b.Run(name, func(b *testing.B) {
			s := server(b)
			bank := newBank(b, s, fence.SQLConfig{})
			lean, err := fence.NewSQL(bank.db, s.Dialect, fence.SQLConfig{Table: bank.table, Idle: -1})
			if err != nil {
				b.Fatal(err)
			}
			deposit := func(tx *sql.Tx) error {
				return bank.execIn(b, tx, "UPDATE {account} SET balance = balance + 1 WHERE id = 1")
			}
			for what, run := range map[string]func() error{
				"plain": func() error {
					tx, err := bank.db.BeginTx(b.Context(), nil)
					if err != nil {
						return err
					}
					if err := deposit(tx); err != nil {
						return err
					}
					return tx.Commit()
				},
				"guarded":         func() error { return bank.Tx(b.Context(), token(1), deposit) },
				"guarded-no-idle": func() error { return lean.Tx(b.Context(), token(1), deposit) },
			} {
				b.Run(what, func(b *testing.B) {
					for b.Loop() {
						if err := run(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			revision := int64(1)
			b.Run("seal", func(b *testing.B) {
				for b.Loop() {
					revision++
					if err := bank.Seal(b.Context(), token(revision)); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
