//go:build !race

package machine

// defaultRuns is how many schedules an ordinary test run plays.
const defaultRuns = 1000
