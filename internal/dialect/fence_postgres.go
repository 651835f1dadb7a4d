package dialect

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// addPostgres adds the statements of Postgres, on which the guard is made to be cheap: each write pays it.
//
// A shard has one row. Its permit names what may write, group, group id, shard and epoch in one value, so a
// guard is one look into the index of permits, with one parameter. It locks the row FOR KEY SHARE, the
// weakest lock there is, as a foreign key's check does. What is not part of a key may be updated meanwhile:
// so a seal's first step, which raises wanted, waits for nobody, and guards read wanted in the row that
// they have looked up anyway.
//
// The second step has to wait for the guards that have passed. Therefore it takes the row FOR UPDATE before (hold): nothing
// else conflicts with FOR KEY SHARE, save the update of a key, which the new permit is too, while its index is
// there. Without either a write would pass that was checked before the seal and commits after it. The update
// marks the row as one whose key has changed: at REPEATABLE READ and above, a guard whose snapshot
// is from before the seal fails on that (40001); at READ COMMITTED it looks at the row again.
//
// The update looks at wanted again, for meanwhile a newer seal may have begun; and at the epoch, for meanwhile SealAll may
// have raised it, of a row that it had not found when it raised each wanted. It need not look at the group's floor, which
// is the wanted of a row with shard -1: SealAll raises that first and the epochs of all rows then, and whoever
// adds a row looks at the floor after that.
func (f *Fence) addPostgres(q func(string) string) {
	f.Create = []string{q(`CREATE TABLE IF NOT EXISTS {fence} (group_name {group}, shard INTEGER NOT NULL, group_id {id}, ` +
		`epoch BIGINT NOT NULL, wanted BIGINT NOT NULL DEFAULT 0, permit UUID UNIQUE, PRIMARY KEY (group_name, shard))`)}
	f.Probe = []string{q(`SELECT group_name, shard, group_id, epoch, wanted, permit FROM {fence} WHERE 1 = 0`)}
	f.State = q(`SELECT COALESCE(f.group_id, ''), COALESCE(f.epoch, 0), COALESCE(f.wanted, 0), COALESCE(a.wanted, 0), ` +
		`COALESCE(p.next_offset, -1) FROM (SELECT 1) AS o ` +
		`LEFT JOIN {fence} f ON f.group_name = $1 AND f.shard = $2 ` +
		`LEFT JOIN {fence} a ON a.group_name = $1 AND a.shard = -1 ` +
		`LEFT JOIN {position} p ON p.group_name = $1 AND p.shard = $2 AND p.stream = $3`)
	f.seal.addFence = q(`INSERT INTO {fence} (group_name, shard, group_id, epoch) VALUES (?, ?, ?, 0) {ignore}`)
	f.seal.addFloor = q(`INSERT INTO {fence} (group_name, shard, group_id, epoch) VALUES (?, ?, '', 0) {ignore}`)
	f.seal.raiseWanted = q(`UPDATE {fence} SET wanted = ? WHERE group_name = ? AND shard = ? AND wanted < ?`)
	f.seal.hold = q(`SELECT 1 FROM {fence} WHERE group_name = ? AND shard = ? FOR UPDATE`)
	f.seal.raiseEpoch = q(`UPDATE {fence} SET epoch = $1, permit = $5::uuid WHERE group_name = $2 AND shard = $3 AND group_id = $4 ` +
		`AND epoch < $1 AND wanted = $1`)
	f.seal.allWanted = q(`UPDATE {fence} SET wanted = ? WHERE group_name = ? AND wanted < ?`)
	// In order, so that two of them don't wait for each other. No token has that epoch, so the row gets no permit.
	f.seal.holdAll = q(`SELECT count(*) FROM (SELECT 1 FROM {fence} WHERE group_name = ? AND shard >= 0 AND epoch < ? ORDER BY shard FOR UPDATE) AS held`)
	f.seal.allEpochs = q(`UPDATE {fence} SET epoch = ?, permit = NULL WHERE group_name = ? AND shard >= 0 AND epoch < ?`)

	// It divides by zero if there is no row. A scalar subquery, because a count over a subquery costs more.
	f.Guard = q(whyGuard + `SELECT 1 / COALESCE((SELECT 1 FROM {fence} WHERE permit = $1::uuid AND epoch = wanted FOR KEY SHARE), 0)`)
	// What is set LOCAL is gone with the transaction. A guard that runs when the function has committed by text would
	// pass or fail all the same, and say nothing of what it was to guard.
	f.Mark = `SET LOCAL tenure.tx = 'open'`
	f.GuardMarked = f.Guard + `, COALESCE(current_setting('tenure.tx', true), '') = 'open'`

	upsert := `INSERT INTO {position} AS p (group_name, shard, stream, next_offset) VALUES (?, ?, ?, ?) ` +
		`ON CONFLICT (group_name, shard, stream) DO UPDATE SET next_offset = excluded.next_offset ` +
		`WHERE p.next_offset < excluded.next_offset`
	f.AdvanceOrAdd = q(upsert)
	f.MustAdvance = q(`WITH advanced AS (` + upsert + ` RETURNING 1) SELECT 1 / count(*) FROM advanced`)
}

// Permit names a token in one value, a UUID of version 8 (RFC 9562).
type Permit [16]byte

// PermitOf is the first half of SHA-256 over the parts, none of which has a NUL in it.
func PermitOf(group string, shard int, groupID string, epoch int64) Permit {
	parts := make([]byte, 0, 160)
	parts = append(parts, group...)
	parts = append(parts, 0)
	parts = append(parts, groupID...)
	parts = append(parts, 0)
	parts = binary.BigEndian.AppendUint64(parts, uint64(shard))
	parts = binary.BigEndian.AppendUint64(parts, uint64(epoch))
	sum := sha256.Sum256(parts)
	p := Permit(sum[:16])
	p[6] = p[6]&0x0f | 0x80
	p[8] = p[8]&0x3f | 0x80
	return p
}

func (p Permit) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", p[:4], p[4:6], p[6:8], p[8:10], p[10:])
}
