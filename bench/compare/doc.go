// Package compare runs one workload through rival ways to serialize it, and checks the sums.
//
// It is for code of your own: the service as it is now and as it would be, against your database and your locks.
//
//	err := compare.Run(ctx, os.Stdout, compare.Config{Clients: 64, Accounts: 1000, Skew: 1.1, For: 20 * time.Second},
//		compare.Contender{Name: "ours, redis lock", Do: lockAndAdd, Sum: sumOfLocked},
//		compare.Contender{Name: "ours, tenure", Do: addAsOwner, Sum: sumOfOwned})
//
// Each client sends its next request when it has the reply to the last. Contenders take turns in rotated order, four
// each, since a machine's speed drifts. Printed are
//
//	requests/s   acknowledged a second, the median of the four turns; without Faults a warm-up before each is left out
//	×            that rate over the first contender's, taken turn by turn, the median
//	acknowledged by Do in all turns, the warm-up included, as in lost, doubled and Sum
//	lost         was acknowledged and is in no balance
//	doubled      is in the balances, though neither acknowledged nor left uncertain by an error or a killed process
//
// What Sum says in the end, less what it said at the start, is held against what was acknowledged. If it fails, both are –, and
// Run returns an error.
//
// # Faults
//
// Locks look well until a holder stops. With Config.Faults a contender's clients run in three processes, which are this
// program, started again: its main runs up to Run, which then does the work it is told to, and returns. So main must come to
// the same call of Run each time, with the same contenders, and do nothing after it that should happen once. In each turn one process is
// stopped (SIGSTOP) for a quarter of the turn and continued, and another killed and started again. Make a turn, which is a
// quarter of Config.For, so long that its quarter is above your TTL. What a killed process had under way counts as
// uncertain.
//
// These are counted under "killed under way", and not as errors, which Do has returned.
//
// Do must find its database and locks by itself in each process; nothing is shared but the servers.
//
// The package is in a module of its own, apart from Tenure's, since it comes with the clients of all that the benchmark measures: many
// dependencies. Keep it to a test or a tool of yours: go get github.com/tenure-go/tenure/bench
package compare
