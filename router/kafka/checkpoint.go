package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Checkpoint is a shard's state at one place in its changelog. It doesn't matter who saved it: what an owner has in memory is what whole
// batches up to Offset make, also if the owner has been replaced since.
type Checkpoint struct {
	Group   string      `json:"group"`
	GroupID string      `json:"group_id"`
	Shard   int         `json:"shard"`
	Topic   string      `json:"topic"`
	TopicID string      `json:"topic_id"`
	Epoch   shard.Epoch `json:"epoch"`  // highest in the log before Offset
	Offset  int64       `json:"offset"` // of the changelog, to read on from
	Next    int64       `json:"next"`   // input position reached, -1: none
	Taken   time.Time   `json:"taken"`
	State   []byte      `json:"-"`
}

// Checkpoints keeps checkpoints: OnCAS, Directory, or a type of yours. Safe for concurrent use.
type Checkpoints interface {
	// Save keeps c unless one of the same group, shard and topic id with a higher Epoch, or that and a higher Offset, is there: then it does
	// nothing, and that is no error. One of another topic id it replaces if that has a lower Epoch; else it fails, for then nobody knows which of the two logs
	// is the newer, and nil lets Trim delete. On error the one that was there before is still there.
	Save(ctx context.Context, c Checkpoint) error

	// Load returns the newest, the one with the highest Epoch and then Offset, or ErrNoCheckpoint.
	Load(ctx context.Context, group string, s int) (Checkpoint, error)
}

// ErrNoCheckpoint: there is none of that shard.
var ErrNoCheckpoint error = &refusal{"kafka: no checkpoint"}

// Checkpoint saves state, which must be what the shard's batches make up to the last one that Append returned nil for. Call it between
// appends, from the goroutine that appends, as often as a Restore is to be quicker. With Trim it then deletes what came before from
// the log, save the last record.
func (l *Changelog) Checkpoint(ctx context.Context, tok shard.Token, state []byte) error {
	if l.config.Checkpoints == nil {
		return refused("changelog: checkpoint: ChangelogConfig.Checkpoints is nil")
	}
	s, err := l.take(ctx, tok)
	if err != nil {
		return err
	}
	defer s.give()
	// Offsets of a topic that was deleted mean nothing in the one of its name: neither to a checkpoint nor to Trim.
	facts, err := lookup(ctx, l.client, l.topic)
	if err != nil {
		return err
	}
	if facts.id != l.id {
		return &RecreatedError{Topic: l.topic, Was: l.id.String(), Now: facts.id.String()}
	}
	c := Checkpoint{
		Group: l.group.Name, GroupID: tok.GroupID, Shard: tok.Shard, Topic: l.topic, TopicID: l.id.String(),
		Epoch: tok.Epoch, Offset: s.end, Next: s.next, Taken: time.Now(), State: state,
	}
	if err := l.config.Checkpoints.Save(ctx, c); err != nil {
		return &opError{"changelog: save a checkpoint", err, cas.OutcomeOf(err)}
	}
	if !l.config.Trim {
		return nil
	}
	// The last record stays. It shows its epoch to a reader without a checkpoint: a zombie's, if it came first, would pass.
	return l.trim(ctx, int32(tok.Shard), c.Offset-1)
}

// trim deletes a partition's records before an offset.
func (l *Changelog) trim(ctx context.Context, p int32, before int64) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = int32(soon.Milliseconds())
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = l.topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = p, before
	t.Partitions = append(t.Partitions, rp)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.client)
	if err == nil {
		for _, rt := range resp.Topics {
			for _, rp := range rt.Partitions {
				err = kerr.ErrorForCode(rp.ErrorCode)
			}
		}
	}
	if err != nil && !errors.Is(err, kerr.OffsetOutOfRange) { // more was deleted already
		return &TopicError{l.topic, "delete what the checkpoint covers", err}
	}
	return nil
}
