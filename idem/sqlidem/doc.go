// Package sqlidem keeps operations in the application's own SQL database, where an effect and its record
// can be one commit: Postgres, MySQL, MariaDB and SQLite, through database/sql.
//
//	store, err := sqlidem.New(db, sqlidem.Postgres, sqlidem.Config{Fence: fences})
//	engine, err := idem.New(store, idem.Config{})
//
// A step of idem has a gap: between its effect and the record of it the process may crash, and then the
// effect happens again unless whoever had it can tell. In the same database there need be no gap:
//
//	StepTx         a step: its statements and its record are one transaction
//	StepTx, Last   the operation's last step: the result as well
//	DoTx           an operation that is one transaction: claim, statements and result
//
// Each of them happens exactly once, whatever crashes, is lost, or is tried again. A commit whose reply was
// lost is found out about, by a write to the record that shuts it out if it was not made.
//
// With Config.Fence they commit under the operation's token as well: a replaced owner's transaction is
// refused even where nobody has taken its operation over.
//
// Besides, any idem.Do works over the store. Times are by the database's clock. If it is set back, an attempt
// that then seems to last for too long is cut to its proper length by the first who looks; if it is set forward,
// attempts and retention end early, and Purge deletes what they leave.
//
// What costs what, in commits: Do two, and one for each step; with Last, one less; DoTx one; a replay
// none.
package sqlidem
