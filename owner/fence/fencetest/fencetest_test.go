package fencetest_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a fence and its accounts under one mutex. Each field is something that one might do otherwise.
type memory struct {
	mu       sync.Mutex // guards all below
	states   map[key]fence.State
	accounts [10]int

	passes    func(s fence.State, tok shard.Token) bool // instead of equality
	lowers    bool                                      // the last seal counts, not the highest
	shared    bool                                      // groups and shards are not told apart
	unchecked bool                                      // tokens are not
	split     bool                                      // guard and write are two steps
	eager     bool                                      // writes, then guards
	raises    bool                                      // a seal raises all shards of all groups
	forgets   bool                                      // a seal drops all other shards
	sweeps    bool                                      // a seal drops all other groups
}

type key struct {
	group string
	shard int
}

func (m *memory) key(tok shard.Token) key {
	if m.shared {
		return key{}
	}
	return key{tok.Group, tok.Shard}
}

func (m *memory) Seal(ctx context.Context, tok shard.Token) error {
	if err := fence.CheckToken(tok); err != nil && !m.unchecked {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.states[m.key(tok)].Refuse(tok); err != nil && err != fence.ErrNotSealed && !m.lowers {
		return err
	}
	m.states[m.key(tok)] = fence.State{GroupID: tok.GroupID, Epoch: tok.Epoch, Wanted: tok.Epoch}
	for k, s := range m.states {
		switch {
		case k == m.key(tok):
		case m.forgets, m.sweeps && k.group != tok.Group:
			delete(m.states, k)
		case m.raises && s.Epoch < tok.Epoch:
			s.Epoch, s.Wanted = tok.Epoch, tok.Epoch
			m.states[k] = s
		}
	}
	return nil
}

func (m *memory) Add(ctx context.Context, tok shard.Token, account, n int) error {
	if err := fence.CheckToken(tok); err != nil && !m.unchecked {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.eager {
		m.accounts[account] += n
	}
	s := m.states[m.key(tok)]
	if err := s.Refuse(tok); err != nil && (m.passes == nil || !m.passes(s, tok)) {
		return err
	}
	if m.split {
		m.mu.Unlock()
		for range 3 { // long enough for a seal to come between
			next := make(chan struct{})
			go close(next)
			<-next
		}
		m.mu.Lock()
	}
	if !m.eager {
		m.accounts[account] += n
	}
	return nil
}

func (m *memory) Balance(_ context.Context, account int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.accounts[account], nil
}

func subject(m *memory) fencetest.Subject {
	return fencetest.Subject{New: func(testing.TB, fencetest.Options) fencetest.Fence {
		f := memory{
			states: make(map[key]fence.State), passes: m.passes, lowers: m.lowers, shared: m.shared,
			unchecked: m.unchecked, split: m.split, eager: m.eager,
			raises: m.raises, forgets: m.forgets, sweeps: m.sweeps,
		}
		return &f
	}}
}

func TestRun(t *testing.T) { fencetest.Run(t, subject(&memory{})) }

// Each fault is found by the test that is about it.
func TestFaults(t *testing.T) {
	if failed := fencetest.Faults(t, subject(&memory{})); len(failed) > 0 {
		t.Errorf("a sound fence fails %q", failed)
	}
	for name, test := range map[string]struct {
		broken *memory
		want   string
	}{
		"at least": {&memory{passes: func(s fence.State, tok shard.Token) bool {
			return s.GroupID == tok.GroupID && s.Epoch != 0 && tok.Epoch >= s.Epoch
		}}, "I6_GuardDemandsEquality"},
		"no guard":     {&memory{passes: func(fence.State, shard.Token) bool { return true }}, "I6_NoOlderWriteAfterSeal"},
		"no group id":  {&memory{passes: func(s fence.State, tok shard.Token) bool { return s.Epoch == tok.Epoch }}, "I6_ForeignGroup"},
		"as a double":  {&memory{passes: func(s fence.State, tok shard.Token) bool { return float64(s.Epoch) == float64(tok.Epoch) }}, "I6_EpochsBeyondDoubles"},
		"last seal":    {&memory{lowers: true}, "I6_SealRefusesOlder"},
		"last of many": {&memory{lowers: true}, "I6_ConcurrentSeals"},
		"last group":   {&memory{lowers: true}, "I6_ForeignGroupsRace"},
		"one shard":    {&memory{shared: true}, "I6_GuardDemandsEquality"},
		"all shards":   {&memory{raises: true}, "I6_ShardsAreApart"},
		"last shard":   {&memory{forgets: true}, "I6_ShardsAreApart"},
		"last group's": {&memory{sweeps: true}, "I6_ShardsAreApart"},
		"any token":    {&memory{unchecked: true}, "BadTokens"},
		"check, write": {&memory{split: true}, "I6_NoOlderWriteAfterSeal"},
		"write, check": {&memory{eager: true}, "I6_GuardDemandsEquality"},
	} {
		if failed := fencetest.Faults(t, subject(test.broken), test.want); !slices.Contains(failed, test.want) {
			t.Errorf("%s: %s does not fail", name, test.want)
		}
	}
}
