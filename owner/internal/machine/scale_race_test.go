//go:build race

package machine

// Fewer under the race detector: the machine has nothing to race with.
const (
	defaultRuns = 80
	largeRuns   = 0
)
