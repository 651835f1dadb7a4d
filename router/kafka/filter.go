package kafka

import (
	"fmt"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Filter passes on what rightful owners wrote, in whole batches, of one partition of a changelog. It is the fence of a log: nobody can
// keep a zombie from appending, so its readers leave out, in the order of the log, every record of an epoch below the
// highest they have seen. A new owner's marker comes before its first record, so from the marker on no older owner counts; and where the marker
// is missing the log has lost records, which is an error. Each
// reader that applies this rule to the same log comes to the same result.
//
// The zero value is for a reader that begins at the log's start. One that begins elsewhere sets Epoch to what its Filter had when it
// stopped there, at Resume. Not safe for concurrent use.
type Filter struct {
	Epoch shard.Epoch // highest seen

	groupID string
	batch   int64         // of Epoch, whole or open, once begun is true
	begun   bool          // a batch of Epoch was seen
	next    int64         // input position, one more than it is; 0: none seen
	open    []*kgo.Record // of a batch that isn't whole yet
	resume  int64
	dropped int64
}

// Whole is a batch that counts.
type Whole struct {
	Epoch   shard.Epoch
	Marker  bool          // a new owner begins; no records
	Records []*kgo.Record // what the owner appended; none if it only stored a position
	Next    int64         // input position reached by it, -1: none
}

// Push takes the partition's next record, and returns the batch that it completes, if it does. A record that no Changelog wrote, or of
// another group (*LogGroupError), is an error, and changes nothing: such a log can't be judged.
func (f *Filter) Push(r *kgo.Record) (w Whole, ok bool, err error) {
	fr, ours, err := readFrame(r)
	switch {
	case err != nil:
		return w, false, err
	case !ours:
		return w, false, refused("%s/%d@%d: no changelog has written this record: give each changelog a topic of its own, and write to it by Append only",
			r.Topic, r.Partition, r.Offset)
	case f.groupID != "" && fr.groupID != f.groupID:
		return w, false, &LogGroupError{Topic: r.Topic, Partition: int(r.Partition), Offset: r.Offset, Mine: f.groupID, Theirs: fr.groupID}
	}
	if f.Epoch > 0 && fr.epoch > f.Epoch && fr.batch > 0 {
		// A new owner appends nothing before its marker is there, and all that was seen before is older.
		return w, false, refused("%s/%d@%d: epoch %s begins after epoch %s with batch %d and not with its marker: the log has lost records that it had "+
			"acknowledged, or has grown anew from an end below where this reader began", r.Topic, r.Partition, r.Offset, fr.epoch, f.Epoch, fr.batch)
	}
	f.groupID = fr.groupID
	if fr.epoch < f.Epoch {
		f.dropped++
		f.rest(r)
		return w, false, nil
	}
	if fr.epoch > f.Epoch {
		f.Epoch, f.begun = fr.epoch, false
		f.drop() // what an older owner had begun can't be completed any more
	}
	switch {
	case !f.begun && fr.index == 1: // a marker; or the reader has begun in the middle
		f.begun, f.batch = true, fr.batch
	case !f.begun, fr.batch < f.batch, fr.batch == f.batch && fr.index <= len(f.open), fr.batch == f.batch && f.open == nil:
		// The rest of a batch whose beginning is not there, or a batch that was here before.
		f.dropped++
		f.rest(r)
		return w, false, nil
	case fr.batch == f.batch && fr.index == len(f.open)+1:
	case fr.batch == f.batch+1 && fr.index == 1 && f.open == nil:
		f.batch = fr.batch
	default:
		// An owner appends nothing before it knows that its last batch is there.
		return w, false, refused("%s/%d@%d: record %d of batch %d of epoch %s follows record %d of batch %d: the log has lost records that it had acknowledged",
			r.Topic, r.Partition, r.Offset, fr.index, fr.batch, fr.epoch, len(f.open), f.batch)
	}
	if !fr.last {
		f.open = append(f.open, r)
		return w, false, nil
	}
	w = Whole{Epoch: fr.epoch, Marker: fr.batch == 0, Next: fr.next}
	if fr.count > 0 {
		w.Records = append(f.open, r)
	}
	f.open = nil
	f.rest(r)
	if fr.next >= 0 {
		f.next = fr.next + 1
	}
	return w, true, nil
}

// Next is the input position that the whole batches so far have reached, or -1 if none carried one.
func (f *Filter) Next() int64 { return f.next - 1 }

// Resume is the offset at which a reader that stops now begins again: no batch is open before it.
func (f *Filter) Resume() int64 { return f.resume }

// Dropped is how many records were left out so far.
func (f *Filter) Dropped() int64 { return f.dropped }

// rest moves Resume past r, if no batch is open.
func (f *Filter) rest(r *kgo.Record) {
	if len(f.open) == 0 {
		f.resume = r.Offset + 1
	}
}

func (f *Filter) drop() {
	f.dropped += int64(len(f.open))
	f.open = nil
}

// LogGroupError: the changelog was written by another group, so epochs in it can't be compared with this one's. Either two store clusters share
// the topic, or the group's records in the store were deleted and made anew. Not applied.
type LogGroupError struct {
	Topic        string
	Partition    int
	Offset       int64
	Mine, Theirs string // group ids
}

func (e *LogGroupError) Error() string {
	return fmt.Sprintf("kafka: %s/%d@%d is of the group with id %q, this one's id is %q: give each group a changelog of its own",
		e.Topic, e.Partition, e.Offset, e.Theirs, e.Mine)
}

// Outcome is NotApplied.
func (e *LogGroupError) Outcome() cas.Outcome { return cas.NotApplied }
