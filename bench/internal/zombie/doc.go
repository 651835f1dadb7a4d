// Package zombie shows what becomes of a holder that stops: for good, in good order, or for a while.
//
// Holders are processes of their own, made by running this program again, that talk over pipes. Each trial has two of
// them, and one balance. The zombie's trial:
//
//	first   takes the lock (or claim, or version), reads the balance: 0. It is sure that it holds.
//	first   is stopped (SIGSTOP), as a long collection, a migrated machine or a full disk would
//	second  takes the lock once the first one's TTL has run out, and writes 100
//	first   goes on (SIGCONT), and sends what it had worked out: 1
//
// If the balance is then 1, a stale write was admitted and the second one's acknowledged write is gone. A lock can't
// prevent that, for nothing looks at the lock when the write arrives. What helps is a check where the write goes.
//
// Where the first one's hold has no time limit, the second can't get in until the first goes on: then nothing is
// overwritten, and nobody works.
package zombie

import "time"

// TTL is what all leases and sessions are set to, unless a server allows only more.
const TTL = 2 * time.Second

// Patience is for how many TTLs a stopped holder stays stopped while the second can't get in.
const Patience = 4

// Env names the environment variable by which a child knows that it is one.
const Env = "TENURE_BENCH_HOLDER"
