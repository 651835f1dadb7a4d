package fence

import (
	"context"
	"fmt"
	"strings"

	"github.com/tenure-go/tenure/internal/dialect"
)

// floorShard stands in the wanted table for the whole group: see SealAll.
const floorShard = -1

// statements are all that a SQL sends, made once.
type statements struct {
	create []string // the schema
	probe  []string // fail unless the schema is there

	state       string // everything there is to know of one shard, in one snapshot
	addFence    string
	addWanted   string
	raiseWanted string
	raiseEpoch  string
	allWanted   string
	allEpochs   string

	guard string
	begin string // first statement of a Tx, or ""

	advance   string
	stored    string
	addStream string
}

// The fence is two tables. A guard locks its row of the first one in share mode, and whoever seals
// updates that row, hence waits for the guards there. If new guards kept coming meanwhile, a
// database that lets share locks overtake a waiting writer, as Postgres does, would let it wait for
// ever. So Seal first raises wanted, in a row of its own that nobody locks; guards read it before
// they lock, and turn away.
func newStatements(d dialect.Dialect, table string) statements {
	text := func(n int) string {
		if d == dialect.MySQL {
			return fmt.Sprintf("VARCHAR(%d) CHARACTER SET ascii COLLATE ascii_bin NOT NULL", n)
		}
		return fmt.Sprintf("VARCHAR(%d) NOT NULL", n)
	}
	stream, engine := "VARCHAR(200) NOT NULL", ""
	if d == dialect.MySQL {
		stream, engine = "VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", " ENGINE=InnoDB"
	}
	r := strings.NewReplacer(
		"{fence}", d.Quote(table), "{wanted}", d.Quote(table+"_wanted"), "{position}", d.Quote(table+"_position"),
		"{group}", text(maxGroup), "{id}", text(maxGroupID), "{stream}", stream, "{engine}", engine,
		"{ignore}", ignoreDuplicate(d),
		"{held}", `group_name = ? AND shard = ? AND group_id = ? AND epoch = ?`+
			` AND EXISTS (SELECT 1 FROM `+d.Quote(table+"_wanted")+` WHERE group_name = ? AND shard = ? AND epoch = ?)`,
	)
	q := func(s string) string { return d.Bind(r.Replace(s)) }
	return statements{
		create: []string{
			q(`CREATE TABLE IF NOT EXISTS {fence} (group_name {group}, shard INTEGER NOT NULL, group_id {id}, ` +
				`epoch BIGINT NOT NULL, PRIMARY KEY (group_name, shard)){engine}`),
			q(`CREATE TABLE IF NOT EXISTS {wanted} (group_name {group}, shard INTEGER NOT NULL, ` +
				`epoch BIGINT NOT NULL, PRIMARY KEY (group_name, shard)){engine}`),
			q(`CREATE TABLE IF NOT EXISTS {position} (group_name {group}, shard INTEGER NOT NULL, stream {stream}, ` +
				`next_offset BIGINT NOT NULL, PRIMARY KEY (group_name, shard, stream)){engine}`),
		},
		probe: []string{
			q(`SELECT group_name, shard, group_id, epoch FROM {fence} WHERE 1 = 0`),
			q(`SELECT group_name, shard, epoch FROM {wanted} WHERE 1 = 0`),
			q(`SELECT group_name, shard, stream, next_offset FROM {position} WHERE 1 = 0`),
		},
		state: q(`SELECT COALESCE(f.group_id, ''), COALESCE(f.epoch, 0), COALESCE(w.epoch, 0), COALESCE(a.epoch, 0), ` +
			`COALESCE(p.next_offset, -1) FROM (SELECT 1 AS one) o ` +
			`LEFT JOIN {fence} f ON f.group_name = ? AND f.shard = ? ` +
			`LEFT JOIN {wanted} w ON w.group_name = ? AND w.shard = ? ` +
			`LEFT JOIN {wanted} a ON a.group_name = ? AND a.shard = -1 ` +
			`LEFT JOIN {position} p ON p.group_name = ? AND p.shard = ? AND p.stream = ?`),
		addFence:    q(`INSERT INTO {fence} (group_name, shard, group_id, epoch) VALUES (?, ?, ?, 0) {ignore}`),
		addWanted:   q(`INSERT INTO {wanted} (group_name, shard, epoch) VALUES (?, ?, 0) {ignore}`),
		raiseWanted: q(`UPDATE {wanted} SET epoch = ? WHERE group_name = ? AND shard = ? AND epoch < ?`),
		raiseEpoch: q(`UPDATE {fence} SET epoch = ? WHERE group_name = ? AND shard = ? AND group_id = ? AND epoch < ? ` +
			`AND NOT EXISTS (SELECT 1 FROM {wanted} WHERE group_name = ? AND shard IN (?, -1) AND epoch > ?)`),
		allWanted: q(`UPDATE {wanted} SET epoch = ? WHERE group_name = ? AND epoch < ?`),
		allEpochs: q(`UPDATE {fence} SET epoch = ? WHERE group_name = ? AND epoch < ?`),
		guard:     q(guardStatement(d)),
		begin:     q(beginStatement(d)),
		advance:   q(`UPDATE {position} SET next_offset = ? WHERE group_name = ? AND shard = ? AND stream = ? AND next_offset < ?`),
		stored:    q(`SELECT next_offset FROM {position} WHERE group_name = ? AND shard = ? AND stream = ?`),
		addStream: q(`INSERT INTO {position} (group_name, shard, stream, next_offset) VALUES (?, ?, ?, ?)`),
	}
}

// ignoreDuplicate ends an INSERT that does nothing if the row is there.
func ignoreDuplicate(d dialect.Dialect) string {
	if d == dialect.MySQL {
		return "ON DUPLICATE KEY UPDATE epoch = epoch" // INSERT IGNORE would swallow other errors too
	}
	return "ON CONFLICT DO NOTHING"
}

// Schema is the fence's tables as SQL, for your migrations. It changes no table that is there.
func (f *SQL) Schema() string {
	return strings.Join(f.stmt.create, ";\n") + ";\n"
}

// Install runs Schema, unless the tables are there: then the database user needs no right to make
// them. Idempotent; any number of processes may call it at once.
func (f *SQL) Install(ctx context.Context) error {
	if _, err := f.facts(ctx); err != nil {
		return err
	}
	if f.probe(ctx) == nil {
		return nil
	}
	for _, s := range f.stmt.create {
		if _, err := f.db.ExecContext(ctx, s); err != nil {
			// On Postgres, IF NOT EXISTS fails in a race with another process that makes the table.
			if _, again := f.db.ExecContext(ctx, s); again != nil {
				return fmt.Errorf("fence: install: %w", err)
			}
		}
	}
	if err := f.probe(ctx); err != nil {
		return fmt.Errorf("fence: install: table %q is there, but has other columns: %w", f.c.Table, err)
	}
	return nil
}

func (f *SQL) probe(ctx context.Context) error {
	for _, s := range f.stmt.probe {
		rows, err := f.db.QueryContext(ctx, s)
		if err != nil {
			return err
		}
		rows.Next() // some drivers run the statement only now
		if err := rows.Close(); err != nil {
			return err
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}
