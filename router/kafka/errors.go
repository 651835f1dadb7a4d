package kafka

import (
	"errors"
	"fmt"
	"io"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrClosed: the Consumer or Changelog was closed. Not applied.
var ErrClosed error = &refusal{"kafka: closed"}

type refusal struct{ msg string }

func (r *refusal) Error() string        { return r.msg }
func (r *refusal) Outcome() cas.Outcome { return cas.NotApplied }

func refused(format string, args ...any) error {
	return &refusal{"kafka: " + fmt.Sprintf(format, args...)}
}

// opError says what was being done when err came, and whether it was applied.
type opError struct {
	op      string
	err     error
	outcome cas.Outcome
}

func (e *opError) Error() string        { return "kafka: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error        { return e.err }
func (e *opError) Outcome() cas.Outcome { return e.outcome }

// PartitionsError: a topic has not as many partitions as the group has shards, and shard i is partition i.
type PartitionsError struct {
	Topic     string
	Want, Got int
}

func (e *PartitionsError) Error() string {
	way := "create a topic with that many and have producers write there"
	if e.Got > e.Want {
		way = "partitions were added, so keys of other producers have moved, and Kafka can't take them away again: " +
			"create a topic with the group's number and copy the records there by key (their positions begin anew), " +
			"or stop all nodes, Reset the group to the new number and rebuild what was laid out by shard"
	}
	return fmt.Sprintf("kafka: topic %q has %d partitions, the group has %d shards: %s", e.Topic, e.Got, e.Want, way)
}

// Outcome is NotApplied.
func (e *PartitionsError) Outcome() cas.Outcome { return cas.NotApplied }

// RecreatedError: the topic was deleted and made anew. What is there now is another log under the same name, in which the stored
// positions mean nothing.
type RecreatedError struct {
	Topic    string
	Was, Now string // topic ids
}

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("kafka: topic %q was deleted and created again (id %s, now %s): positions in the old one mean nothing in the new one; "+
		"restart the nodes, and if positions are not stored by Stream, delete those of this topic first", e.Topic, e.Was, e.Now)
}

// Outcome is NotApplied.
func (e *RecreatedError) Outcome() cas.Outcome { return cas.NotApplied }

// OffsetError: the position to read on from is not in the log. Below First, retention has deleted what was not read yet; above
// End, the log has lost its end, or it is another log. Nothing is skipped: the shard stands still until an operator decides.
type OffsetError struct {
	Topic      string
	Partition  int
	Position   int64
	First, End int64 // -1: not known
}

func (e *OffsetError) Error() string {
	text := fmt.Sprintf("kafka: %s/%d: position %d is not in the log, which has [%d, %d): ", e.Topic, e.Partition, e.Position, e.First, e.End)
	switch {
	case e.First > e.Position:
		return text + fmt.Sprintf("retention has deleted [%d, %d), which was not consumed; if that may be left out, Seek to %d", e.Position, e.First, e.First)
	case e.lostEnd():
		return text + fmt.Sprintf("the log has lost its end, or is another one, and new records take offsets that were consumed: from %d to %d they would be "+
			"left out. To consume them, give this shard's stream another name and a position of %d; to leave them out, Seek to %d, where it stands",
			e.End, e.Position-1, e.End, e.Position)
	}
	return text + "the log has lost its end, or is another one; if what is missing may be left out, Seek to where to go on"
}

// lostEnd: the log ends below the position.
func (e *OffsetError) lostEnd() bool { return e.End >= 0 && e.End < e.Position }

// Outcome is NotApplied.
func (e *OffsetError) Outcome() cas.Outcome { return cas.NotApplied }

// TopicError: the brokers refuse, or can't be asked.
type TopicError struct {
	Topic string
	Doing string
	Err   error
}

// What a TopicError of the dead-letter topic was Doing.
const (
	findDead = "ask the brokers for the dead-letter topic"
	putAway  = "put a record away"
)

func (e *TopicError) Error() string {
	if (e.Doing == findDead || e.Doing == putAway) && errors.Is(e.Err, kerr.UnknownTopicOrPartition) {
		return fmt.Sprintf("kafka: dead-letter topic %q does not exist: create it, with any number of partitions", e.Topic)
	}
	return fmt.Sprintf("kafka: topic %q: %s: %v%s", e.Topic, e.Doing, e.Err, advice(e.Err))
}

// Unwrap is Kafka's error, package kerr has them.
func (e *TopicError) Unwrap() error { return e.Err }

// Outcome is NotApplied.
func (e *TopicError) Outcome() cas.Outcome { return cas.NotApplied }

// advice is what to do about an error of the brokers.
func advice(err error) string {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return ": it does not exist here: create it, with as many partitions as the group has shards"
	case errors.Is(err, kerr.UnknownTopicID):
		return ": it was deleted, or created anew under another id: restart the nodes"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return ": the principal needs Read and Describe on it, and Write where it is produced to"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return ": the principal needs Read on the LagGroup"
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return ": the principal lacks a right on the cluster"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return ": check the mechanism and credentials in Client (kgo.SASL)"
	case errors.Is(err, io.EOF):
		return ": the broker hung up: do TLS and SASL in Client fit its listener, and the credentials?"
	}
	return ""
}

// BadRecordError: Process says, by way of Bad, that this record can't ever be processed; or it is not of the shard whose partition
// it is in.
type BadRecordError struct {
	Record *kgo.Record
	Err    error
}

func (e *BadRecordError) Error() string {
	return fmt.Sprintf("kafka: bad record at %s/%d@%d: %v", e.Record.Topic, e.Record.Partition, e.Record.Offset, e.Err)
}

func (e *BadRecordError) Unwrap() error { return e.Err }

// Outcome is NotApplied.
func (e *BadRecordError) Outcome() cas.Outcome { return cas.NotApplied }

// Bad marks the error of Process that r itself is at fault and nothing of the batch was applied: what came before r is processed,
// and r goes to the dead-letter topic at once, or stops the shard if there is none. It is nil if err is.
func Bad(r *kgo.Record, err error) error {
	if err == nil {
		return nil
	}
	return &BadRecordError{r, err}
}

// NotApplied marks an error of Process: definitely nothing of the batch was applied, or will be. Errors of a fence's Tx say so
// themselves. It wraps err, and is nil if err is.
func NotApplied(err error) error {
	if err == nil {
		return nil
	}
	return &opError{"not applied", err, cas.NotApplied}
}

// misplaced is why a record is bad whose key is not of the shard.
func misplaced(r *kgo.Record, of int) error {
	if r.Key == nil {
		return refused("it has no key, so it is nobody's: give it one and produce with Partitioner")
	}
	return refused("its key is of shard %d: produce with Partitioner, or with the group's hash (Murmur2 for Java's producers)", of)
}

// mayRetry reports whether Process's error says that the batch was not applied, and not that this owner is no longer the one.
// What it returns false for ends the tenure.
func mayRetry(t *owner.Tenure, err error) bool {
	if cas.OutcomeOf(err) != cas.NotApplied || t.Context().Err() != nil {
		return false
	}
	if errors.Is(err, fence.ErrNotSealed) || errors.Is(err, fence.ErrToken) || errors.Is(err, ErrClosed) || errors.Is(err, ErrRestore) || ofOwner(err) {
		return false
	}
	if conflict, ok := errors.AsType[*cas.ConflictError](err); ok {
		guard := t.Guard()
		for _, e := range conflict.Current {
			if e.Key == guard.Key && !guard.Holds(e) {
				return false // the claim is gone, or another's
			}
		}
	}
	return true
}

// ofOwner: err is about who writes, or from where, and not about what.
func ofOwner(err error) bool {
	_, fenced := errors.AsType[*fence.FencedError](err)
	_, group := errors.AsType[*fence.GroupError](err)
	_, log := errors.AsType[*LogGroupError](err)
	_, position := errors.AsType[*fence.PositionError](err)
	_, lost := errors.AsType[*owner.LostError](err)
	return fenced || group || log || position || lost
}
