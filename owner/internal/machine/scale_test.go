//go:build !race

package machine

// How many small and large schedules an ordinary test run plays.
const (
	defaultRuns = 3000
	largeRuns   = 12
)
