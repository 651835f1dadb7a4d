package dialect

import "strings"

// RefusedCommit reports whether a SQLSTATE, in reply to a COMMIT, is Postgres's own word that it did
// not commit. A reply that names a constraint, a serialization failure or bad data was sent instead of a
// commit. Other classes do not prove that: a server that is shut down while it waits for its standby
// has committed already (57P01), a proxy that lost its server says 08006, and 40003 says itself that it
// does not know.
func RefusedCommit(state string) bool {
	if state == "40003" { // statement_completion_unknown
		return false
	}
	// In order: data, integrity, transaction state, triggered data change, rollback, access rule,
	// check option, raised by a trigger.
	for _, class := range []string{"22", "23", "25", "27", "40", "42", "44", "P0"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}
