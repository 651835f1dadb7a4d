package dialect

import "strings"

// Idem is all the SQL of a table of operations, made once. Whoever sends it, by whichever driver, keeps
// the same records. The parameters of each are named beside it, in order; durations are milliseconds
// from the moment of the statement, by the database's clock.
type Idem struct {
	Create []string // the schema
	Probe  string   // fails unless the schema is there

	Get    string // id: rev, head, body, left, length, replayable, forgotten
	Heal   string // id, rev: ends an attempt that a step of the clock has put too far off
	Insert string // IdemArgs, id last
	Claim  string // Insert, and what was there if it did nothing: id, IdemArgs, id. Postgres
	Revive string // IdemArgs, id last, old rev: over a record that is forgotten
	Update string // IdemArgs, id last, old rev
	Must   string // Update that fails unless it changed the row. Postgres
	Extend string // length, length, id, rev
	Hold   string // id, rev: locks the row

	Begin  string // first statement of a transaction, or ""
	Drop   string // limit: bodies whose replay has ended
	Delete string // limit: records that are forgotten
}

// idemNow is the time in milliseconds, by the database's clock and in no time zone, since the hour in which
// summer time ends comes twice. On Postgres it is that of the moment, not of the transaction.
func idemNow(d Dialect) string {
	switch d {
	case Postgres:
		return `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
	case MySQL:
		return `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000)`
	default:
		return `CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)`
	}
}

// NewIdem returns the statements for operations in table.
//
// A revision is drawn at random by whoever writes, and so never comes back, not even when the row was
// deleted and made anew.
func NewIdem(d Dialect, table string) Idem {
	r := strings.NewReplacer(
		"{table}", d.Quote(table), "{now}", idemNow(d),
		"{by_forget}", d.Quote(indexName(table, "_forget")), "{by_replay}", d.Quote(indexName(table, "_replay")),
	)
	q := func(s string) string { return d.Bind(r.Replace(s)) }
	const (
		until   = `CASE WHEN attempt_until = 0 THEN 0 ELSE attempt_until - {now} END`
		columns = `rev, head, CASE WHEN replay_until > {now} THEN body END, ` + until + `, attempt_ms, ` +
			`CASE WHEN replay_until > {now} THEN 1 ELSE 0 END, CASE WHEN forget_at <= {now} THEN 1 ELSE 0 END`
		set = `rev = ?, head = ?, body = ?, attempt_ms = ?, attempt_until = ? * ({now} + ?), ` +
			`replay_until = ? * ({now} + ?), forget_at = {now} + ?`
		values = `(rev, head, body, attempt_ms, attempt_until, replay_until, forget_at, id) VALUES (?, ?, ?, ?, ` +
			`? * ({now} + ?), ? * ({now} + ?), {now} + ?, ?)`
		old = `SELECT id FROM {table} WHERE `
	)
	lock := map[Dialect]string{Postgres: " FOR UPDATE", MySQL: " FOR UPDATE"}[d]
	i := Idem{
		Create: idemSchema(d, q),
		Probe:  q(`SELECT id, rev, head, body, attempt_ms, attempt_until, replay_until, forget_at FROM {table} WHERE 1 = 0`),
		Get:    q(`SELECT ` + columns + ` FROM {table} WHERE id = ?`),
		Heal:   q(`UPDATE {table} SET attempt_until = {now} + attempt_ms WHERE id = ? AND rev = ? AND attempt_until > {now} + attempt_ms`),
		Insert: q(`INSERT INTO {table} ` + values),
		Revive: q(`UPDATE {table} SET ` + set + ` WHERE id = ? AND rev = ? AND forget_at <= {now}`),
		Update: q(`UPDATE {table} SET ` + set + ` WHERE id = ? AND rev = ?`),
		Extend: q(`UPDATE {table} SET attempt_ms = ?, attempt_until = {now} + ? WHERE id = ? AND rev = ?`),
		Hold:   q(`SELECT rev FROM {table} WHERE id = ? AND rev = ?` + lock),
		Drop: q(`UPDATE {table} SET body = NULL, replay_until = 0 WHERE id IN (` + old +
			`replay_until > 0 AND replay_until <= {now} ORDER BY replay_until LIMIT ?)`),
		Delete: q(`DELETE FROM {table} WHERE id IN (` + old + `forget_at <= {now} ORDER BY forget_at LIMIT ?)`),
	}
	switch d {
	case Postgres:
		// FOR UPDATE SKIP LOCKED: several may purge at once, and none waits for an operation.
		i.Drop = q(`UPDATE {table} SET body = NULL, replay_until = 0 WHERE id IN (` + old +
			`replay_until > 0 AND replay_until <= {now} ORDER BY replay_until LIMIT ? FOR UPDATE SKIP LOCKED)`)
		i.Delete = q(`DELETE FROM {table} WHERE id IN (` + old + `forget_at <= {now} ORDER BY forget_at LIMIT ? FOR UPDATE SKIP LOCKED)`)
		// DO NOTHING leaves a row that is there alone: no lock, so no commit that has to reach the disk. What
		// was inserted since the statement began is seen by neither half; then there is no row.
		i.Claim = `WITH put AS (` + numbered(r.Replace(`INSERT INTO {table} `+values+` ON CONFLICT (id) DO NOTHING RETURNING 1`)) +
			`) SELECT 1, 0::bigint, '', NULL::bytea, 0::bigint, 0::bigint, 0, 0 FROM put UNION ALL ` +
			r.Replace(`SELECT 0, `+columns+` FROM {table} WHERE id = $10 AND NOT EXISTS (SELECT 1 FROM put)`)
		i.Must = `WITH put AS (` + i.Update + ` RETURNING 1) SELECT 1 / count(*) FROM put`
	case MySQL:
		i.Drop = q(`UPDATE {table} SET body = NULL, replay_until = 0 WHERE replay_until > 0 AND replay_until <= {now} ORDER BY replay_until LIMIT ?`)
		i.Delete = q(`DELETE FROM {table} WHERE forget_at <= {now} ORDER BY forget_at LIMIT ?`)
	case SQLite:
		// Takes the write lock now, where it can be waited for.
		i.Begin = q(`UPDATE {table} SET rev = rev WHERE 1 = 0`)
	}
	return i
}

// numbered is Bind for Postgres.
func numbered(s string) string { return Postgres.Bind(s) }

// indexName is in the table's schema by itself, so it must not name one.
func indexName(table, suffix string) string {
	return table[strings.LastIndexByte(table, '.')+1:] + suffix
}

func idemSchema(d Dialect, q func(string) string) []string {
	text, blob, id, engine := "TEXT", "BLOB", "VARCHAR(64)", ""
	switch d {
	case Postgres:
		blob = "BYTEA"
	case MySQL:
		text, blob = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "LONGBLOB"
		id = "VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin"
		engine = ", INDEX {by_forget} (forget_at), INDEX {by_replay} (replay_until)) ENGINE=InnoDB"
	}
	create := `CREATE TABLE IF NOT EXISTS {table} (id ` + id + ` NOT NULL PRIMARY KEY, rev BIGINT NOT NULL, head ` + text + ` NOT NULL, body ` + blob +
		`, attempt_ms BIGINT NOT NULL, attempt_until BIGINT NOT NULL, replay_until BIGINT NOT NULL, forget_at BIGINT NOT NULL`
	if d == MySQL {
		return []string{q(create + engine)}
	}
	return []string{
		q(create + `)`),
		q(`CREATE INDEX IF NOT EXISTS {by_forget} ON {table} (forget_at)`),
		q(`CREATE INDEX IF NOT EXISTS {by_replay} ON {table} (replay_until) WHERE replay_until > 0`),
	}
}

// IdemArgs are the parameters that a record is written with. An attempt or a replay of 0 is none.
func IdemArgs(rev int64, head string, body any, attempt, replay, forget int64, id string) []any {
	return []any{rev, head, body, attempt, min(attempt, 1), attempt, min(replay, 1), replay, forget, id}
}
