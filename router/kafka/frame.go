package kafka

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/shard"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Headers that Changelog puts on its records, before which those stand that the record had. HeaderEpoch is what any reader has to
// compare; HeaderFrame is the Filter's:
//
//	tenure-epoch  decimal
//	tenure-frame  <format> <group id> <batch> <index> <count> <next>
//
// A batch's records carry its number and their index, 1 to count; count and next, the input position, are 0 but on the last one. A marker is
// a batch numbered 0, of one record without key and value, and a batch that is but a position looks the same with
// its own number: count is then 0, for no record of the user's.
const (
	HeaderEpoch = "tenure-epoch"
	HeaderFrame = "tenure-frame"
)

const frameFormat = 1

// frame is what stands in a record's headers.
type frame struct {
	epoch   shard.Epoch
	groupID string
	batch   int64 // in the tenure, from 1; 0: its marker
	index   int   // in the batch, from 1
	last    bool
	count   int   // of the last: the user's records in the batch
	next    int64 // of the last: the input position reached, -1 if none
}

func (f frame) headers() []kgo.RecordHeader {
	count, next := "-", "-"
	if f.last {
		count, next = strconv.Itoa(f.count), strconv.FormatInt(f.next, 10)
	}
	text := fmt.Sprintf("%d %s %d %d %s %s", frameFormat, f.groupID, f.batch, f.index, count, next)
	return []kgo.RecordHeader{
		{Key: HeaderEpoch, Value: []byte(f.epoch.Decimal())},
		{Key: HeaderFrame, Value: []byte(text)},
	}
}

// readFrame reads the headers. ok is false for a record that no Changelog has written.
func readFrame(r *kgo.Record) (f frame, ok bool, err error) {
	var epoch, text string
	n := 0
	for _, h := range r.Headers {
		switch h.Key {
		case HeaderEpoch:
			epoch = string(h.Value)
			n++
		case HeaderFrame:
			text = string(h.Value)
			n++
		}
	}
	if n == 0 {
		return f, false, nil
	}
	bad := refused("%s/%d@%d: headers %s %q and %s %q: want one of each, as this program or an older one writes them",
		r.Topic, r.Partition, r.Offset, HeaderEpoch, epoch, HeaderFrame, text)
	part := strings.Split(text, " ")
	if n != 2 || len(part) != 6 || part[0] != strconv.Itoa(frameFormat) || part[1] == "" {
		return f, true, bad
	}
	f.groupID = part[1]
	var errs [5]error
	f.epoch, errs[0] = shard.ParseDecimal(epoch)
	f.batch, errs[1] = strconv.ParseInt(part[2], 10, 64)
	f.index, errs[2] = strconv.Atoi(part[3])
	if part[4] != "-" {
		f.last = true
		f.count, errs[3] = strconv.Atoi(part[4])
		f.next, errs[4] = strconv.ParseInt(part[5], 10, 64)
	}
	if slices.ContainsFunc(errs[:], func(err error) bool { return err != nil }) || !f.valid() {
		return f, true, bad
	}
	return f, true, nil
}

func (f frame) valid() bool {
	switch {
	case f.epoch <= 0 || f.batch < 0 || f.index < 1:
		return false
	case !f.last:
		return f.batch > 0
	}
	return f.next >= -1 && (f.count == 0 && f.index == 1 || f.count == f.index && f.batch > 0)
}
