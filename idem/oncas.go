package idem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// OnCAS keeps operations in a store of package cas, such as etcd or memory: for small results and low
// rates. Each operation has up to three keys, by the record's id, which is a hash of scope and key:
//
//	<prefix>/records/<id>    the record, JSON; it names scope and key
//	<prefix>/attempts/<id>   there while the attempt lasts
//	<prefix>/results/<id>    there while the result is replayed
//
// Each is under a lease of the store for as long as it is to last, so the store's own clock decides when
// an attempt, a replay and a tombstone end; it also cleans up, and there is nothing to purge. The leases
// are shared by all operations of some stretch of time, and never renewed: an attempt lasts up to half as long again
// as Config.Attempt says, the others up to a thousandth, and the store holds about two thousand leases for each
// process that writes all the time.
//
// An operation costs two commits and one for each step, a replay one read. What a value may have in size says
// the store (etcd: 1.5 MiB for a request); what is above it is kept as a *TooLargeError.
//
// prefix defaults to "/tenure-idem". The caller keeps s, and closes it last.
func OnCAS(s cas.Store, prefix string) Store {
	prefix = strings.TrimRight(prefix, "/")
	if prefix == "" {
		prefix = "/tenure-idem"
	}
	return &casStore{
		s: s, prefix: prefix,
		attempts: newLeases(s, 2), retention: newLeases(s, 1024),
	}
}

type casStore struct {
	s         cas.Store
	prefix    string
	attempts  *leases
	retention *leases
}

// casKeys are an operation's.
type casKeys struct{ record, attempt, result string }

func (c *casStore) keys(id string) casKeys {
	const r, a, b = "/records/", "/attempts/", "/results/"
	n := len(c.prefix) + len(id)
	all := c.prefix + r + id + c.prefix + a + id + c.prefix + b + id // in one piece: every operation does this twice
	second := n + len(r)
	third := second + n + len(a)
	return casKeys{record: all[:second], attempt: all[second:third], result: all[third:]}
}

func (k casKeys) absent() []cas.Cond {
	return []cas.Cond{cas.Absent(k.record), cas.Absent(k.attempt), cas.Absent(k.result)}
}

// Get asks for something that is true only of an absent record, so that the refusal brings all three
// keys along, as of one revision.
func (c *casStore) Get(ctx context.Context, id string) (Record, error) {
	entries, err := c.look(ctx, c.keys(id))
	return recordOf(entries), err
}

func (c *casStore) look(ctx context.Context, k casKeys) ([]cas.Entry, error) {
	_, err := c.s.Commit(ctx, cas.Txn{If: k.absent()})
	if conflict, ok := err.(*cas.ConflictError); ok {
		return conflict.Current, nil
	}
	if err != nil {
		return nil, &opError{"reading the record", err, cas.NotApplied}
	}
	return nil, nil
}

// recordOf reads the entries of record, attempt and result, in this order.
func recordOf(entries []cas.Entry) Record {
	if len(entries) != 3 || entries[0].Rev == 0 {
		return Record{}
	}
	r := Record{Rev: entries[0].Rev, Head: entries[0].Value}
	if entries[1].Rev != 0 {
		ms, err := strconv.ParseInt(string(entries[1].Value), 10, 64)
		if err != nil || ms < 1 {
			ms = 1
		}
		r.Attempt = time.Duration(ms) * time.Millisecond
	}
	if entries[2].Rev != 0 {
		r.Body, r.Replayable = entries[2].Value, true
	}
	return r
}

// Swap is Store.
func (c *casStore) Swap(ctx context.Context, id string, rev int64, p Put) (int64, error) {
	k := c.keys(id)
	conds := k.absent()
	if rev != 0 {
		conds = []cas.Cond{cas.AtRev(k.record, rev)}
	}
	swept := false
	for try := 1; ; try++ {
		then, err := c.ops(ctx, k, p)
		if err != nil {
			return 0, err
		}
		n, err := c.s.Commit(ctx, cas.Txn{If: conds, Then: then})
		conflict, conflicted := err.(*cas.ConflictError)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, cas.ErrLeaseNotFound) && try < 3 && cas.OutcomeOf(err) == cas.NotApplied:
			c.attempts.forget()
			c.retention.forget()
		case !conflicted:
			return 0, err
		case rev == 0 && conflict.Current[0].Rev == 0 && !swept:
			// The record is gone and a key of it has stayed: the leases of a store that was restarted
			// all begin anew, or somebody has deleted a key.
			swept = true
			conds = []cas.Cond{
				cas.Absent(k.record), cas.AtRev(k.attempt, conflict.Current[1].Rev), cas.AtRev(k.result, conflict.Current[2].Rev),
			}
		case rev == 0:
			return 0, &ConflictError{Current: recordOf(conflict.Current)}
		default:
			return 0, c.conflict(ctx, k)
		}
	}
}

func (c *casStore) conflict(ctx context.Context, k casKeys) error {
	entries, err := c.look(ctx, k)
	if err != nil {
		return err
	}
	return &ConflictError{Current: recordOf(entries)}
}

// ops are the changes that p asks for, under leases that last as long.
func (c *casStore) ops(ctx context.Context, k casKeys, p Put) ([]cas.Op, error) {
	retained, err := c.retention.lease(ctx, p.Forget)
	if err != nil {
		return nil, err
	}
	then := append(make([]cas.Op, 0, 3), cas.PutLeased(k.record, p.Head, retained))
	if p.Attempt > 0 {
		op, err := c.attempt(ctx, k, p.Attempt)
		if err != nil {
			return nil, err
		}
		then = append(then, op)
	} else {
		then = append(then, cas.Delete(k.attempt))
	}
	if p.Body != nil {
		replay, err := c.retention.lease(ctx, p.Replay)
		if err != nil {
			return nil, err
		}
		then = append(then, cas.PutLeased(k.result, p.Body, replay))
	} else {
		then = append(then, cas.Delete(k.result))
	}
	return then, nil
}

func (c *casStore) attempt(ctx context.Context, k casKeys, d time.Duration) (cas.Op, error) {
	lease, err := c.attempts.lease(ctx, d)
	if err != nil {
		return cas.Op{}, err
	}
	longest := d + d/2
	return cas.PutLeased(k.attempt, strconv.AppendInt(nil, max(1, longest.Milliseconds()), 10), lease), nil
}

// Extend is Store.
func (c *casStore) Extend(ctx context.Context, id string, rev int64, attempt time.Duration) error {
	k := c.keys(id)
	for try := 1; ; try++ {
		op, err := c.attempt(ctx, k, attempt)
		if err != nil {
			return err
		}
		_, err = c.s.Commit(ctx, cas.Txn{If: []cas.Cond{cas.AtRev(k.record, rev)}, Then: []cas.Op{op}})
		if errors.Is(err, cas.ErrLeaseNotFound) && try < 3 && cas.OutcomeOf(err) == cas.NotApplied {
			c.attempts.forget()
			continue
		}
		if _, ok := err.(*cas.ConflictError); ok {
			return c.conflict(ctx, k)
		}
		return err
	}
}

// String is for logs.
func (c *casStore) String() string { return fmt.Sprintf("idem.OnCAS(%s)", c.prefix) }
