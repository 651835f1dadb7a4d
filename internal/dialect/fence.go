package dialect

import (
	"fmt"
	"strings"
)

// What a fence's columns hold.
const (
	MaxGroup   = 63  // characters of a group's name
	MaxGroupID = 64  // of a group's id
	MaxStream  = 200 // bytes of a stream's name
)

// Fence is all the SQL of a fence, made once. Whoever sends it, by whichever driver, fences the same
// database in the same way.
type Fence struct {
	Create []string // the schema
	Drop   []string // what Create has made
	Probe  []string // fail unless the schema is there

	State string // everything there is to know of one shard, in one snapshot
	Guard string // fails unless the token is the sealed one; on Postgres it finds what Passed is to note, or no row
	Begin string // first statement of a guarded transaction, or ""

	Advance   string
	Stored    string
	AddStream string

	Mark         string // what GuardMarked looks for; Postgres
	GuardMarked  string // Guard, and whether Mark was set in this transaction; Postgres
	AdvanceOrAdd string // both in one; Postgres
	MustAdvance  string // an error unless it changed the row; Postgres

	seal sealing
}

// NewFence returns the statements of the fence in table, and in those that take their names from it:
// table_wanted, table_position; on Postgres also the sequence table_generation and the function table_guard.
//
// The fence is two tables. A guard locks its row of the first one in share mode, and whoever seals
// updates that row, hence waits for the guards there. If new guards kept coming meanwhile, a
// database that lets share locks overtake a waiting writer, as Postgres does, would let it wait for
// ever. So Seal first raises wanted, in a row of its own that nobody locks; guards read it before
// they lock, and turn away.
//
// On Postgres a guard that has passed may pass again without looking at a row: see generation.
func NewFence(d Dialect, table string) Fence {
	text := func(n int) string {
		if d == MySQL {
			return fmt.Sprintf("VARCHAR(%d) CHARACTER SET ascii COLLATE ascii_bin NOT NULL", n)
		}
		return fmt.Sprintf("VARCHAR(%d) NOT NULL", n)
	}
	stream, engine := "VARCHAR(200) NOT NULL", ""
	if d == MySQL {
		stream, engine = "VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", " ENGINE=InnoDB"
	}
	r := strings.NewReplacer(
		"{fence}", d.Quote(table), "{wanted}", d.Quote(table+"_wanted"), "{position}", d.Quote(table+"_position"),
		"{group}", text(MaxGroup), "{id}", text(MaxGroupID), "{stream}", stream, "{engine}", engine,
		"{ignore}", ignoreDuplicate(d),
		"{generation}", d.Quote(table+"_generation"), "{function}", d.Quote(table+"_guard"),
		"{sequence}", `'`+d.Quote(table+"_generation")+`'::regclass`,
		"{quoted sequence}", `''`+d.Quote(table+"_generation")+`''::regclass`,
		"{held}", `group_name = ? AND shard = ? AND group_id = ? AND epoch = ?`+
			` AND EXISTS (SELECT 1 FROM `+d.Quote(table+"_wanted")+` WHERE group_name = ? AND shard = ? AND epoch = ?)`,
	)
	q := func(s string) string { return d.Bind(r.Replace(s)) }
	f := Fence{
		Create: []string{
			q(`CREATE TABLE IF NOT EXISTS {fence} (group_name {group}, shard INTEGER NOT NULL, group_id {id}, ` +
				`epoch BIGINT NOT NULL, PRIMARY KEY (group_name, shard)){engine}`),
			q(`CREATE TABLE IF NOT EXISTS {wanted} (group_name {group}, shard INTEGER NOT NULL, ` +
				`epoch BIGINT NOT NULL, PRIMARY KEY (group_name, shard)){engine}`),
			q(`CREATE TABLE IF NOT EXISTS {position} (group_name {group}, shard INTEGER NOT NULL, stream {stream}, ` +
				`next_offset BIGINT NOT NULL, PRIMARY KEY (group_name, shard, stream)){engine}`),
		},
		Drop: []string{q(`DROP TABLE IF EXISTS {fence}`), q(`DROP TABLE IF EXISTS {wanted}`), q(`DROP TABLE IF EXISTS {position}`)},
		Probe: []string{
			q(`SELECT group_name, shard, group_id, epoch FROM {fence} WHERE 1 = 0`),
			q(`SELECT group_name, shard, epoch FROM {wanted} WHERE 1 = 0`),
			q(`SELECT group_name, shard, stream, next_offset FROM {position} WHERE 1 = 0`),
		},
		State: q(`SELECT COALESCE(f.group_id, ''), COALESCE(f.epoch, 0), COALESCE(w.epoch, 0), COALESCE(a.epoch, 0), ` +
			`COALESCE(p.next_offset, -1) FROM (SELECT 1 AS one) o ` +
			`LEFT JOIN {fence} f ON f.group_name = ? AND f.shard = ? ` +
			`LEFT JOIN {wanted} w ON w.group_name = ? AND w.shard = ? ` +
			`LEFT JOIN {wanted} a ON a.group_name = ? AND a.shard = -1 ` +
			`LEFT JOIN {position} p ON p.group_name = ? AND p.shard = ? AND p.stream = ?`),
		Guard:   q(guardStatement(d)),
		Begin:   q(beginStatement(d)),
		Advance: q(`UPDATE {position} SET next_offset = ? WHERE group_name = ? AND shard = ? AND stream = ? AND next_offset < ?`),
		Stored:  q(`SELECT next_offset FROM {position} WHERE group_name = ? AND shard = ? AND stream = ?`),
		seal: sealing{
			addFence:    q(`INSERT INTO {fence} (group_name, shard, group_id, epoch) VALUES (?, ?, ?, 0) {ignore}`),
			addWanted:   q(`INSERT INTO {wanted} (group_name, shard, epoch) VALUES (?, ?, 0) {ignore}`),
			raiseWanted: q(`UPDATE {wanted} SET epoch = ? WHERE group_name = ? AND shard = ? AND epoch < ?`),
			raiseEpoch:  q(raiseStatement),
			allWanted:   q(`UPDATE {wanted} SET epoch = ? WHERE group_name = ? AND epoch < ?`),
			allEpochs:   q(`UPDATE {fence} SET epoch = ? WHERE group_name = ? AND epoch < ?`),
		},
		AddStream: q(`INSERT INTO {position} (group_name, shard, stream, next_offset) VALUES (?, ?, ?, ?)`),
	}
	if d == Postgres {
		upsert := `INSERT INTO {position} AS p (group_name, shard, stream, next_offset) VALUES (?, ?, ?, ?) ` +
			`ON CONFLICT (group_name, shard, stream) DO UPDATE SET next_offset = excluded.next_offset ` +
			`WHERE p.next_offset < excluded.next_offset`
		// What is set LOCAL is gone with the transaction. A guard that runs when the function has committed by text would
		// pass or fail all the same, and say nothing of what it was to guard.
		f.Mark = `SET LOCAL tenure.tx = 'open'`
		f.GuardMarked = q(why + markedGuard)
		f.AdvanceOrAdd = q(upsert)
		f.Create = append(f.Create, q(createSequence), q(createFunction))
		f.Drop = append(f.Drop, q(dropFunction)) // the sequence goes with its table
		f.Probe = append(f.Probe, q(probeSequence), q(probeFunction))
		f.seal.raiseEpoch = q(raiseAndRenew)
		f.seal.lockAlone, f.seal.renew, f.seal.drain = q(aloneStatement), q(renewStatement), q(drainStatement)
		f.MustAdvance = q(`WITH advanced AS (` + upsert + ` RETURNING 1) SELECT 1 / count(*) FROM advanced`)
	}
	return f
}

// ignoreDuplicate ends an INSERT that does nothing if the row is there.
func ignoreDuplicate(d Dialect) string {
	if d == MySQL {
		return "ON DUPLICATE KEY UPDATE epoch = epoch" // INSERT IGNORE would swallow other errors too
	}
	return "ON CONFLICT DO NOTHING"
}

// why is for who reads the server's log.
const why = `/* tenure: an error here means that this owner is fenced */ `

// guardStatement fails in the server unless exactly one row is held. A row count that the client
// looks at would come too late wherever a COMMIT is already on its way behind the statement. The
// dialects differ in how a query can be made to fail:
//
//   - Postgres divides by zero, in the function: see generation.
//   - MySQL gives NULL for a division by zero, but an integer overflow is an error in every SQL mode.
//     A locking read sees the row as it is now, whatever the transaction's snapshot says.
//   - SQLite documents that abs of the least integer fails. No lock is needed: the transaction has
//     the database's one write lock by now, or else has written nothing.
func guardStatement(d Dialect) string {
	switch d {
	case Postgres:
		return why + shortGuard
	case MySQL:
		return why + `SELECT 9223372036854775807 + (1 - COUNT(*)) FROM {fence} WHERE {held} LOCK IN SHARE MODE`
	default:
		return why + `SELECT abs(-9223372036854775807 - (1 - count(*))) FROM {fence} WHERE {held}`
	}
}

// beginStatement is the first statement of a Tx. SQLite: a transaction that reads before it writes
// fails, without waiting, if another writer comes between; this statement changes no row but
// takes the write lock, so the wait is here.
func beginStatement(d Dialect) string {
	if d == SQLite {
		return `UPDATE {fence} SET epoch = epoch WHERE 1 = 0`
	}
	return ""
}

// GuardArgs are the parameters of Guard, save on Postgres, where they are Passed's.
func GuardArgs(group string, shard int, groupID string, epoch int64) []any {
	return []any{group, shard, groupID, epoch, group, shard, epoch}
}

// StateArgs are the parameters of State. The stream may be "".
func StateArgs(group string, shard int, stream string) []any {
	return []any{group, shard, group, shard, group, group, shard, stream}
}
