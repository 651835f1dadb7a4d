package owner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner/internal/machine"
	"github.com/tenure-go/tenure/shard"
)

// Handler is one tenure: seal, load, t.Ready, work until ctx is done, flush under t.Context(),
// return nil. context.Cause(ctx) is ErrHandoff (flush) or *LostError (just return). Returning
// earlier, an error or a panic ends the tenure, never the process; the next has a new epoch.
type Handler func(ctx context.Context, t *Tenure) error

// Config configures a Node. The zero value is a member that serves no address.
type Config struct {
	ID       string            // Defaults to host name plus random suffix, so it can't be taken
	Takeover bool              // the platform promises one live process per ID: revoke a predecessor's lease
	Address  string            // host:port under which peers reach this process: no wildcard. Required by routers
	Zone     string            // for operators and placement
	Version  string            // your program's, for operators
	Weight   int               // Defaults to 1; negative: stand by, owns nothing
	Meta     map[string]string // more addresses, labels; at most 4 KiB

	// Prepare warms a shard that will move here while its owner still serves. It gets no Tenure,
	// so it can't write. The Handler returned, a closure over what was warmed, serves the next
	// tenure. Not called after a crash: the plain Handler must work too.
	Prepare func(ctx context.Context, shard int) (Handler, error)

	TTL            time.Duration // Defaults to 10s (least 2s): how long a dead node's shards stay dark
	StartTimeout   time.Duration // Defaults to 30s, until Ready
	PrepareTimeout time.Duration // Defaults to 10s; in a drain at most 5s
	DrainTimeout   time.Duration // Defaults to 8s: then contexts end and the move is forced
	NeverForce     bool          // for work nothing fences: a stuck handler keeps its shard, and Run, till its process dies
	WaitTimeout    time.Duration // Defaults to 5s: Enter's wait for a hand-off
	MaxWaiting     int           // Defaults to 1024 a shard
	MinMembers     int           // Defaults to 1: a group's first grants wait for so many and for Settle since the last join, at most 10 Settle
	Settle         time.Duration // Defaults to 1s
	Logger         *slog.Logger  // Defaults to silence. Must not block, like Hooks: the loop that renews writes to it
	Hooks          Hooks         // must not block
}

// Hooks are called from the node's own goroutines and must return at once. Nil ones are skipped.
type Hooks struct {
	Tenure  func(Event)
	Renewed func(took, trustLeft time.Duration)
}

// Event is a turn in a tenure's life.
type Event struct {
	Token shard.Token
	State State
	Took  time.Duration // in the state before
	Age   time.Duration // of the tenure
	For   time.Duration // how long it has been in State: only Status can tell
	Err   error         // of Lost and Failed
}

// State is where a tenure stands.
type State string

// The states of a tenure, in order; the last four are ends.
const (
	Granted   State = "granted"    // the handler was started
	Ready     State = "ready"      // requests are admitted
	Draining  State = "draining"   // admission is closed for a hand-off
	HandedOff State = "handed-off" // the handler returned in good order
	Forced    State = "forced"     // the handler overstayed DrainTimeout and was given up on
	Lost      State = "lost"       // trust, claim or membership is gone
	Failed    State = "failed"     // the handler returned early, failed or panicked
)

// The defaults that Config's fields name.
const (
	defaultTTL            = 10 * time.Second
	leastTTL              = 2 * time.Second
	defaultStartTimeout   = 30 * time.Second
	defaultPrepareTimeout = 10 * time.Second
	defaultDrainTimeout   = 8 * time.Second
	defaultWaitTimeout    = 5 * time.Second
	defaultMaxWaiting     = 1024
	defaultSettle         = time.Second
)

// withDefaults fills in a copy, and says everything that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("owner: Config."+format, args...))
	}
	if c.ID == "" {
		c.ID = ownID()
	}
	if c.Weight == 0 {
		c.Weight = 1
	}
	if c.MinMembers == 0 {
		c.MinMembers = 1
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = defaultMaxWaiting
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Meta = maps.Clone(c.Meta)
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"TTL", &c.TTL, defaultTTL},
		{"StartTimeout", &c.StartTimeout, defaultStartTimeout},
		{"PrepareTimeout", &c.PrepareTimeout, defaultPrepareTimeout},
		{"DrainTimeout", &c.DrainTimeout, defaultDrainTimeout},
		{"WaitTimeout", &c.WaitTimeout, defaultWaitTimeout},
		{"Settle", &c.Settle, defaultSettle},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < 0 {
			bad("%s is %v: want a time above 0, or 0 for the default of %v", d.name, *d.value, d.standard)
		}
	}
	if c.TTL > 0 && c.TTL < leastTTL {
		bad("TTL is %v: want at least %v, because etcd grants no less by default and a shorter pause would already lose every shard", c.TTL, leastTTL)
	}
	if c.MinMembers < 0 {
		bad("MinMembers is %d: want at least 1, or 0 for 1", c.MinMembers)
	}
	if c.MaxWaiting < 0 || c.MaxWaiting > math.MaxInt32 {
		bad("MaxWaiting is %d: want 1 to %d, or 0 for %d", c.MaxWaiting, math.MaxInt32, defaultMaxWaiting)
	}
	if err := checkAddress(c.Address); err != nil {
		faults = append(faults, err)
	}
	if err := c.member().Validate(); err != nil {
		faults = append(faults, fmt.Errorf("owner: %w", err))
	}
	return c, errors.Join(faults...)
}

// checkAddress refuses what peers could not reach: they would send requests to themselves.
func checkAddress(addr string) error {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	if err != nil || host == "" || port == "" || port == "0" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("owner: Config.Address is %q: want host:port under which other processes reach this one, such as 10.0.0.7:8080; "+
			"what a server listens on is another thing", addr)
	}
	return nil
}

// member is the node as others see it.
func (c Config) member() shard.Member {
	return shard.Member{
		ID: c.ID, Address: c.Address, Zone: c.Zone, Version: c.Version, Weight: c.Weight, Meta: c.Meta,
	}
}

// machine is what the protocol needs to know.
func (c Config) machine(g shard.Group) machine.Config {
	return machine.Config{
		Group:          g,
		GroupID:        rand.Text(),
		Member:         layout.Member{Member: c.member(), Prepares: c.Prepare != nil},
		Takeover:       c.Takeover,
		TTL:            c.TTL,
		StartTimeout:   c.StartTimeout,
		PrepareTimeout: c.PrepareTimeout,
		DrainTimeout:   c.DrainTimeout,
		NeverForce:     c.NeverForce,
		MinMembers:     c.MinMembers,
		Settle:         c.Settle,
	}
}

// ownID can't be taken: 50 random bits follow the host's name.
func ownID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node" // only for people to read
	}
	host = strings.Map(func(r rune) rune {
		if r == '/' || unicode.IsControl(r) {
			return '-'
		}
		return r
	}, host)
	if len(host) > 64 {
		host = strings.ToValidUTF8(host[:64], "")
	}
	return host + "-" + strings.ToLower(rand.Text()[:10])
}
