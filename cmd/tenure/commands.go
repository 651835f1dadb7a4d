package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/shard"
)

// command is what may be asked for.
type command struct {
	name, args, help string
	run              func(ctx context.Context, a *owner.Admin, args []string, out io.Writer) error
}

func commands() []command {
	return []command{
		{"members", "", "who is there, the planner first", members},
		{"drain", "ID", "a member gives all its shards away, and gets none until undrain", drain},
		{"undrain", "ID", "take that back", undrain},
		{"pin", "SHARD ID", "keep a shard with a member as long as that is eligible", pin},
		{"unpin", "SHARD", "take that back", unpin},
		{"raise-lineage", "ABOVE", "make every later epoch higher than any of this lineage, after a restore", raise},
	}
}

// call is a command with its arguments.
type call struct {
	command command
	args    []string
}

func parse(words []string) (call, error) {
	if len(words) == 0 {
		return call{}, errors.New("no command")
	}
	for _, c := range commands() {
		if c.name != words[0] {
			continue
		}
		if want := len(strings.Fields(c.args)); len(words)-1 != want {
			return call{}, fmt.Errorf("%s: got %d arguments, want %q", c.name, len(words)-1, strings.TrimSpace(c.name+" "+c.args))
		}
		return call{c, words[1:]}, nil
	}
	return call{}, fmt.Errorf("unknown command %q", words[0])
}

func usage() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %s %s\t%s\n", c.name, c.args, c.help)
	}
	_ = w.Flush() // to memory
	return b.String()
}

func (c call) run(ctx context.Context, s cas.Store, g shard.Group, out io.Writer) error {
	return c.command.run(ctx, owner.NewAdmin(s, g), c.args, out)
}

// find is the group as the store has it: the number of shards and the hash need not be told.
func (o options) find(ctx context.Context, s cas.Store) (shard.Group, error) {
	g := shard.Group{Name: o.group, Shards: 1, Prefix: o.prefix}.WithDefaults()
	if err := g.Validate(); err != nil {
		return g, err
	}
	e, err := s.Get(ctx, layout.For(g).Config())
	if err != nil {
		return g, fmt.Errorf("read the config of group %s: %w", g.Name, err)
	}
	if e.Rev == 0 {
		return g, fmt.Errorf("group %s has no config under %s: no member has ever joined it; is -prefix right?", g.Name, layout.For(g).Prefix())
	}
	var c layout.Config
	if err := json.Unmarshal(e.Value, &c); err != nil {
		return g, fmt.Errorf("the config of group %s: %w", g.Name, err)
	}
	g.Shards, g.Hash = c.Shards, c.Hash
	return g, g.Validate()
}

func members(ctx context.Context, a *owner.Admin, _ []string, out io.Writer) error {
	all, err := a.Members(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tADDRESS\tZONE\tVERSION\tWEIGHT\t")
	for i, m := range all {
		note := ""
		if i == 0 {
			note = "planner"
		}
		if m.Draining {
			note = strings.TrimSpace(note + " draining")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", m.ID, m.Address, m.Zone, m.Version, m.Weight, note)
	}
	return w.Flush()
}

func drain(ctx context.Context, a *owner.Admin, args []string, _ io.Writer) error {
	return one(ctx, a, args[0], a.Drain)
}

func undrain(ctx context.Context, a *owner.Admin, args []string, _ io.Writer) error {
	return one(ctx, a, args[0], a.Undrain)
}

// one applies change to the member of an id, which has to be there.
func one(ctx context.Context, a *owner.Admin, id string, change func(context.Context, func(shard.Member) bool) error) error {
	found := false
	err := change(ctx, func(m shard.Member) bool {
		found = found || m.ID == id
		return m.ID == id
	})
	if err == nil && !found {
		return fmt.Errorf("member %q is not there: see members", id)
	}
	return err
}

func pin(ctx context.Context, a *owner.Admin, args []string, _ io.Writer) error {
	s, err := number("SHARD", args[0])
	if err != nil {
		return err
	}
	return a.Pin(ctx, s, args[1])
}

func unpin(ctx context.Context, a *owner.Admin, args []string, _ io.Writer) error {
	s, err := number("SHARD", args[0])
	if err != nil {
		return err
	}
	return a.Pin(ctx, s, "")
}

func raise(ctx context.Context, a *owner.Admin, args []string, _ io.Writer) error {
	above, err := number("ABOVE", args[0])
	if err != nil {
		return err
	}
	return a.RaiseLineage(ctx, above)
}

func number(what, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is %q: want a number, 0 or more", what, text)
	}
	return n, nil
}
