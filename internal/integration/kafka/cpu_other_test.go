//go:build !unix

package kafka

import "time"

// cpu is not known here.
func cpu() time.Duration { return 0 }
