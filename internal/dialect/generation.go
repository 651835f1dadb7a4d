package dialect

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// # The generation
//
// Reading and locking the fence's row is most of what a guard costs on Postgres. A guard that has passed need not do it again
// while nothing was sealed, and that is one number to compare: a sequence, the generation, which each seal sets to a random value. A
// sequence is no row: whoever asks gets what it is now, whatever snapshot the transaction has. The lock that makes a
// seal wait is an advisory one, in share mode, for the same reason, and because it costs no write.
//
//	guard  1  lock the shard, shared, without waiting; if that fails, 3
//	       2  pass if the generation is the one in which this token passed step 3
//	       3  lock the row in share mode, fail unless it is the token's, and return the generation
//	seal   1  raise wanted; commit; set the generation
//	       2  lock the shard alone; raise the row; unset the generation; commit
//	       3  set the generation, also if the row was found raised
//
// No older owner's guard passes when step 2 of a seal has committed, and none that has passed is open. Say one passes by its step 3:
// then it has locked the row before the seal did, which has waited for it there. Or it passes by step 2, in a
// generation that was told by a guard that had the row locked, so before the seal unset it. When it found that one
// it had the shard's lock: before the seal had it, and then the seal has waited; or after the seal had committed, and then the
// generation was another.
//
// What each rule is for, besides:
//
//   - Who seals locks the shard before the row, as a guard does that goes on from step 2 to step 3: the other way
//     round the two could wait for each other.
//   - Step 1 sets the generation so that guards that begin later turn away, though the seal may wait for long, or be given up.
//   - It is not set before the commit, because a replica that takes over has a prefix of the log, and may have what step 2 did to the generation
//     and not its commit. Then the token must find another generation than those in which it has passed, and be told that its
//     seal is gone. SealAll may set it: no token is what it raises to.
//   - The value is random and no count: a replica that has missed the last seals must not count up again to those that they set.
//   - A standby refuses locks of rows, and nothing else in a guard: so there it takes the long way.
//
// What is left to trust is that only seals change rows. What is changed otherwise is seen when the generation is set, and else when
// Passed forgets.

// shortGuard is steps 1 and 2, and calls the function for step 3: it finds no row if it passes the short way, otherwise it fails or finds
// the generation. pg_sequence_last_value is what the view pg_sequences is made of; reading the sequence as a table costs as much
// again as all the rest, and so do three more parameters, or a row that the client has to read.
const shortGuard = `SELECT {function}($1)` + whereNotShort

const whereNotShort = ` WHERE (CASE WHEN pg_is_in_recovery() THEN false ` +
	`WHEN pg_try_advisory_xact_lock_shared({sequence}::oid::integer, $2) THEN pg_sequence_last_value({sequence}) = $3 END) IS NOT TRUE`

// Whether it runs in the transaction that Mark was set in. If not there is always a row.
const (
	inside      = `COALESCE(current_setting('tenure.tx', true), '') = 'open'`
	markedGuard = `SELECT {function}($1), ` + inside + whereNotShort + ` OR NOT ` + inside
)

// createFunction is step 3, a function because a query that names a table makes the server
// open it, whether or not the query comes to look at it.
//
// The function divides by zero if there is no such row. The lock must be FOR SHARE: FOR KEY SHARE does not
// conflict with an update of a column that is no key, so a seal would not wait for it; and no lock at
// all lets a write pass that was checked before the seal and commits after it. Nor would it do to make
// the epoch a key and wanted a column beside it: a key-share lock that comes while an update of wanted
// moves the row to another page is lost (on 15.18, some of 30,000), and VACUUM FULL forgets that a key was
// changed. When a seal commits while the guard waits, the row is checked again as it is then. A generation of 0 is one that is not set.
const createFunction = `CREATE OR REPLACE FUNCTION {function}(held text) RETURNS bigint LANGUAGE sql VOLATILE AS ` +
	`'SELECT COALESCE(pg_sequence_last_value({quoted sequence}), 0) / COALESCE((SELECT 1 FROM {fence} ` +
	`WHERE group_name = split_part(held, ''/'', 1) AND shard = split_part(held, ''/'', 2)::integer ` +
	`AND group_id = split_part(held, ''/'', 3) AND epoch = split_part(held, ''/'', 4)::bigint ` +
	`AND epoch = (SELECT epoch FROM {wanted} WHERE group_name = split_part(held, ''/'', 1) AND shard = split_part(held, ''/'', 2)::integer) ` +
	`FOR SHARE), 0)'`

// GuardFoundNoRow reports whether err is what the function says of a row that is not the token's, by any driver of Postgres.
func GuardFoundNoRow(err error) bool {
	e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && e.SQLState() == "22012"
}

// held is a token as the function reads it. No part of it holds a slash.
func held(group string, shard int, groupID string, epoch int64) string {
	return group + "/" + strconv.Itoa(shard) + "/" + groupID + "/" + strconv.FormatInt(epoch, 10)
}

const (
	createSequence = `CREATE SEQUENCE IF NOT EXISTS {generation} OWNED BY {fence}.epoch`
	probeSequence  = `SELECT last_value FROM {generation} WHERE 1 = 0`
	dropFunction   = `DROP FUNCTION IF EXISTS {function}(text)`
	probeFunction  = `SELECT '{function}(text)'::regprocedure`
)

// The statements of a seal. Rows of all shards may be more than there is room for locks, so drain takes some at a time, each time in
// a transaction of its own.
const (
	aloneStatement = `SELECT pg_advisory_xact_lock({sequence}::oid::integer, ?)`
	renewStatement = `SELECT setval({sequence}, ?)`
	raiseAndRenew  = `WITH raised AS (` + raiseStatement + ` RETURNING 1) SELECT setval({sequence}, 1, false) FROM raised`
	drainStatement = `SELECT count(pg_advisory_xact_lock({sequence}::oid::integer, ? + shard)), COALESCE(max(shard), -1) ` +
		`FROM (SELECT shard FROM {fence} WHERE group_name = ? AND shard > ? ORDER BY shard LIMIT 500) s`
)

// lockKey is the second half of a shard's advisory lock; the first is the sequence's OID, so that no other table is concerned.
// Two groups may share a key: then a seal waits for guards that it need not wait for.
func lockKey(group string, shard int) int { return lockBase(group) + shard }

func lockBase(group string) int { return int(xxhash.Sum64String(group) >> 34) }

// newGeneration is never 0.
func newGeneration() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return int64(binary.LittleEndian.Uint64(b[:])>>1 | 1)
}
