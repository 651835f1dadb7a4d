// Chaos breaks a group of real processes for as long as it is told to, and then proves that nothing came of it.
//
//	go run ./internal/integration/chaos -for 60s -seed 7     faults under load
//	go run ./internal/integration/chaos -no-fence            the same zombies without a fence: must be found out
//	go run ./internal/integration/chaos -rolling 20          restarts in good order: no request may fail
//	go run ./internal/integration/chaos -rolling-default     one round of them with the library's own defaults
//	go run ./internal/integration/chaos -check FILE          checks a history that was kept
//
// Three etcd members and five nodes run as processes of their own, each node behind proxies that can fall
// silent: towards each etcd member, towards Postgres, and in front of its own server. Clients read, write and
// add to registers through any node. A third of the shards keeps its registers in etcd, written under
// Tenure.Guard; the others keep theirs in Postgres under fence.SQL. Owners hold the values in memory and write what
// they compute from them, so that whoever writes with an old memory destroys what came between. In each tenure
// one goroutine writes all the time and looks at nothing: neither at the gate nor at its context. It is what
// wakes inside a write when a stopped process goes on.
//
// # What a run proves
//
//   - Each register is linearizable, as its clients saw it (porcupine). An operation that failed for certain did not
//     happen; one whose outcome is uncertain may happen at any later time, or never.
//   - Each acknowledged write was applied exactly once, each that failed for certain not at all, any other at
//     most once. Every write leaves a row in the same transaction, in the order of commits of its shard.
//   - In that order a shard's epochs never decrease (I2, I6), each value follows from the one before it, and the
//     registers end as the rows say.
//   - The fence was needed: writes under an epoch that was over did arrive, and were refused. They are counted. In a
//     rolling restart there are none (I5).
//   - The group came back to serve every register once the faults were over (I9), and enough operations succeeded
//     meanwhile to mean something. A run in which that is not so fails, as one that proved nothing.
//
// # What it does not prove
//
// A seed fixes the plan of the faults, not how the machine schedules processes: what one run did not meet the next may.
// Races of microseconds (a guard without its lock, say) are seldom met here, and are tested at the fences. The
// proxies stand in for a network: they lose, hold and deliver late, but whole TCP streams, not packets, and a kernel
// at either end believes that all is well. All processes share one machine and one clock, and one disk that does not
// fail. There is one Postgres and it is never failed over.
//
// The times in the table of faults are what clients saw of the shard that suffered most while a fault lasted. Faults overlap,
// so one's time may be another's doing: -only plans faults of chosen kinds alone.
//
// -no-fence ends with exit status 1 if the checks found damage, as they must, and with 3 if they didn't.
//
// SQLite can't stand in for Postgres here: a process that is stopped inside a transaction would lock the database for
// everybody else until it goes on.
package main
