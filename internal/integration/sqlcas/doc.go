// Package sqlcas runs cas/sqlcas and cas/sqlcas/pgxcas on real databases: SQLite always, Postgres and MariaDB
// where the environment names one (see .ci/servers).
package sqlcas
