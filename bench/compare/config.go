package compare

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Contender applies amount to account, and returns when it is durable. All fields are required.
type Contender struct {
	Name string
	Do   func(ctx context.Context, account string, amount int64) error // called by all clients at once
	Sum  func(ctx context.Context) (int64, error)                      // what the database says in the end, over all accounts
}

// Config is the workload. The zero value is one client on one account, for 10 s.
type Config struct {
	Clients, Accounts int           // Default to 1
	Skew              float64       // Zipf s; 0 is uniform
	For               time.Duration // of each contender, in four turns. Defaults to 10s
	Faults            bool          // pause and kill a process meanwhile; see the package's documentation
}

func (c Config) withDefaults() (Config, error) {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf("compare: "+format, args...)) }
	if c.Clients == 0 {
		c.Clients = 1
	}
	if c.Accounts == 0 {
		c.Accounts = 1
	}
	if c.For == 0 {
		c.For = 10 * time.Second
	}
	if c.Clients < 1 || c.Clients > 10_000 {
		refuse("Clients is %d: want 1 to 10000", c.Clients)
	}
	if c.Accounts < 1 || c.Accounts > 10_000_000 {
		refuse("Accounts is %d: want 1 to 10000000", c.Accounts)
	}
	if c.Skew < 0 || c.Skew > 10 {
		refuse("Skew is %g: want 0 (uniform) to 10", c.Skew)
	}
	if c.For < 100*time.Millisecond {
		refuse("For is %s: want at least 100ms", c.For)
	}
	return c, errors.Join(faults...)
}

func check(cs []Contender) error {
	var faults []error
	if len(cs) == 0 {
		faults = append(faults, errors.New("compare: no contender: want at least one"))
	}
	seen := map[string]bool{}
	for i, c := range cs {
		switch {
		case c.Name == "" || c.Do == nil || c.Sum == nil:
			faults = append(faults, fmt.Errorf("compare: contender %d (%q): want a Name, Do and Sum", i, c.Name))
		case seen[c.Name]:
			faults = append(faults, fmt.Errorf("compare: contender %d: there is a %q already", i, c.Name))
		}
		seen[c.Name] = true
	}
	return errors.Join(faults...)
}
