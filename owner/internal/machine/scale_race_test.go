//go:build race

package machine

// defaultRuns is fewer under the race detector: the machine has nothing to race with.
const defaultRuns = 80
