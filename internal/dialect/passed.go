package dialect

import (
	"sync"
	"time"
)

// Passed remembers the generation in which each shard's guard has last passed the long way, on Postgres. The zero value is ready, and
// safe for concurrent use.
type Passed struct {
	mu     sync.RWMutex
	shards map[shardKey]pass
}

// forgetAfter is how long it remembers, and so how long goes unseen what is done to rows otherwise than by a seal: by hand, or by a
// restored dump, whose sequences may be newer than its tables.
const forgetAfter = 5 * time.Second

type shardKey struct {
	group string
	shard int
}

type pass struct {
	groupID string
	epoch   int64
	args    []any // of a guard in this generation; nobody changes them
	at      time.Time
}

// Args are the parameters of a guard, which the caller must not change, and whether it may pass the short way.
func (p *Passed) Args(group string, shard int, groupID string, epoch int64) (args []any, short bool) {
	p.mu.RLock()
	last := p.shards[shardKey{group, shard}]
	p.mu.RUnlock()
	if last.groupID != groupID || last.epoch != epoch || time.Since(last.at) > forgetAfter {
		return guardArgs(group, shard, groupID, epoch, 0), false
	}
	return last.args, true
}

// Note is told the generation that a guard has found on the long way.
func (p *Passed) Note(group string, shard int, groupID string, epoch, generation int64) {
	if generation == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shards == nil {
		p.shards = make(map[shardKey]pass)
	}
	p.shards[shardKey{group, shard}] = pass{groupID, epoch, guardArgs(group, shard, groupID, epoch, generation), time.Now()}
}

// Forget is told that the generation is another than what was remembered.
func (p *Passed) Forget(group string, shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.shards, shardKey{group, shard})
}

func guardArgs(group string, shard int, groupID string, epoch, generation int64) []any {
	return []any{held(group, shard, groupID, epoch), lockKey(group, shard), generation}
}
