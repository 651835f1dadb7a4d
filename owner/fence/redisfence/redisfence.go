// Package redisfence refuses writes of a replaced owner in Redis, as well as Redis can.
//
// A guarded write is a Lua script that runs behind a comparison in the same script, so nothing comes
// between. That is as good as any fence while the server that compares is the one that was sealed.
// It is called BestEffort because Redis may forget: replication is asynchronous, so a replica that takes over
// may lack the last seal; a restart may lose up to a second of writes, or all of them, depending on
// appendfsync; and under a maxmemory-policy that evicts any key the fence's may be among them. Then a zombie
// whose epoch is what the server remembers can write again, until the owner's next write is refused
// as fence.ErrNotSealed and its shard sealed anew.
//
// So keep in Redis what may be lost or worked out again, and put what may not behind fence.SQL. WAIT,
// or min-replicas-to-write, make the gap rarer and close nothing.
//
// # Use
//
//	fences, err := redisfence.New(redisfence.EvalFunc(
//		func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//			return client.Eval(ctx, script, keys, args...).Result()
//		}), redisfence.Config{})
//	...
//	n, err := fences.Eval(ctx, t.Token(), `return redis.call('INCRBY', KEYS[1], ARGV[1])`,
//		[]string{fences.Key(t.Token(), "visits")}, 1)
//
// The client must not try again by itself: a script whose reply was lost may have run (go-redis:
// Options.MaxRetries of -1).
package redisfence

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/shard"
)

// Evaler is the one command that a BestEffort needs of a client: EVAL. An array comes back as []any, an
// integer as int64, and a string as string or []byte. Safe for concurrent use.
type Evaler interface {
	Eval(ctx context.Context, script string, keys []string, args ...any) (any, error)
}

// EvalFunc is an Evaler made of a function.
type EvalFunc func(ctx context.Context, script string, keys []string, args ...any) (any, error)

// Eval calls f.
func (f EvalFunc) Eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	return f(ctx, script, keys, args...)
}

// Config configures a BestEffort. The zero value is a good one.
type Config struct {
	// Prefix begins the name of each key. Defaults to "tenure:".
	Prefix string
}

// BestEffort fences a Redis server, or a cluster, by one hash per group and shard: see the package for what it
// can't promise. Make it with New; safe for concurrent use.
type BestEffort struct {
	redis  Evaler
	prefix string
}

// New does no I/O.
func New(redis Evaler, c Config) (*BestEffort, error) {
	if redis == nil {
		return nil, refused("redisfence: New: no Evaler: want what sends EVAL to the server")
	}
	if c.Prefix == "" {
		c.Prefix = "tenure:"
	}
	return &BestEffort{redis: redis, prefix: c.Prefix}, nil
}

// Key is a name for a key of tok's shard. In a cluster it is in the slot of the shard's fence, as all keys of
// a guarded script must be: what stands in braces decides that.
func (f *BestEffort) Key(tok shard.Token, name string) string {
	return f.prefix + "{" + tok.Group + "/" + strconv.Itoa(tok.Shard) + "}:" + name
}

// Serve is an owner.Handler that seals, is ready, and waits: for services with no state in memory. On a
// refused write call owner.Tenure.Fail.
func (f *BestEffort) Serve(ctx context.Context, t *owner.Tenure) error {
	if err := f.Seal(ctx, t.Token()); err != nil {
		return err
	}
	t.Ready()
	<-ctx.Done()
	return nil
}

// Seal raises what the server remembers to tok's epoch: from then on it refuses older owners, for as long as it
// remembers. Idempotent: after an error call it again. *fence.FencedError if a higher epoch is there,
// *fence.GroupError if another group has sealed; then nothing has changed.
func (f *BestEffort) Seal(ctx context.Context, tok shard.Token) error {
	_, err := f.run(ctx, tok, seal, nil, nil)
	return err
}

// Eval runs script, with its own keys and args, if tok is what was sealed, and returns its result. Else it does not
// run: *fence.FencedError, fence.ErrNotSealed, *fence.GroupError. Keys must be Key's in a cluster.
//
// Any other error is cas.ErrUncertain: the reply may be what was lost, and Redis does not roll back
// what a script has done before it failed. In a script, KEYS and ARGV are local variables.
func (f *BestEffort) Eval(ctx context.Context, tok shard.Token, script string, keys []string, args ...any) (any, error) {
	return f.run(ctx, tok, guard+script+guardEnd, keys, args)
}

// Epochs are compared as text of equal length, because Lua's numbers are doubles, which hold integers to
// 2^53 only.
const (
	recall = `
local key, group, epoch = KEYS[1], ARGV[1], ARGV[2]
local known = redis.call('HMGET', key, 'group_id', 'epoch')
if known[1] and known[1] ~= group then return {0, known[1], known[2]} end
`
	seal = recall + `
if known[2] and known[2] > epoch then return {0, known[1], known[2]} end
redis.call('HSET', key, 'group_id', group, 'epoch', epoch)
return {1}
`
	guard = recall + `
if known[2] ~= epoch then return {0, known[1] or '', known[2] or '0'} end
local keys, args = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 3, #ARGV do args[i - 2] = ARGV[i] end
local result = (function(KEYS, ARGV)
`
	guardEnd = `
end)(keys, args)
if type(result) == 'table' and result.err then return result end
return {1, result}
`
)

func (f *BestEffort) run(ctx context.Context, tok shard.Token, script string, keys []string, args []any) (any, error) {
	if err := fence.CheckToken(tok); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, refused("redisfence: %v", context.Cause(ctx)) // clients differ in whether they send it all the same
	}
	keys = append([]string{f.Key(tok, "fence")}, keys...)
	args = append([]any{tok.GroupID, fmt.Sprintf("%019d", int64(tok.Epoch))}, args...)
	reply, err := f.redis.Eval(ctx, script, keys, args...)
	if err != nil {
		return nil, fmt.Errorf("redisfence: %w: %w", cas.ErrUncertain, err)
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) == 0 {
		return nil, badReply(reply)
	}
	if parts[0] == int64(1) {
		if len(parts) == 1 { // a nil ends an array
			return nil, nil
		}
		return parts[1], nil
	}
	if len(parts) != 3 {
		return nil, badReply(reply)
	}
	epoch, err := strconv.ParseInt(text(parts[2]), 10, 64)
	if err != nil {
		return nil, badReply(reply)
	}
	known := fence.State{GroupID: text(parts[1]), Epoch: shard.Epoch(epoch), Wanted: shard.Epoch(epoch)}
	if err := known.Refuse(tok); err != nil {
		return nil, err
	}
	return nil, badReply(reply)
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// badReply: the script has run, or not.
func badReply(reply any) error {
	return fmt.Errorf("redisfence: %w: the reply %v is not one of the script's: does the Evaler return arrays as []any and integers as int64?",
		cas.ErrUncertain, reply)
}

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

func refused(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }
