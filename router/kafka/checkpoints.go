package kafka

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenure-go/tenure/cas"
)

// A checkpoint is stored as one line of JSON and then the state as it is.

const checkpointFormat = 1

type stored struct {
	Format int `json:"format"`
	Size   int `json:"size"` // of the state: a file that was cut is found out
	Checkpoint
}

func encodeCheckpoint(c Checkpoint) ([]byte, error) {
	head, err := json.Marshal(stored{Format: checkpointFormat, Size: len(c.State), Checkpoint: c})
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), c.State...), nil
}

func decodeCheckpoint(data []byte) (Checkpoint, error) {
	head, state, ok := bytes.Cut(data, []byte("\n"))
	var s stored
	if err := json.Unmarshal(head, &s); err != nil || !ok {
		return Checkpoint{}, refused("checkpoint: can't be read: it does not begin with a line of JSON")
	}
	if s.Format != checkpointFormat || s.Size != len(state) || s.Offset < 0 || s.Next < -1 || s.Epoch <= 0 {
		return Checkpoint{}, refused("checkpoint: can't be read: format %d with %d bytes of %d, epoch %s, offset %d: want format %d, whole",
			s.Format, len(state), s.Size, s.Epoch, s.Offset, checkpointFormat)
	}
	s.State = state
	return s.Checkpoint, nil
}

// OnCAS keeps checkpoints in a store of package cas, under "prefix/group/shard". For small states: a value is at most what the store
// takes, 1.5 MiB with etcd's default.
func OnCAS(s cas.Store, prefix string) Checkpoints { return &casCheckpoints{s, prefix} }

type casCheckpoints struct {
	store  cas.Store
	prefix string
}

func (k *casCheckpoints) key(group string, s int) string {
	return fmt.Sprintf("%s/%s/%05d", k.prefix, group, s)
}

func (k *casCheckpoints) Load(ctx context.Context, group string, s int) (Checkpoint, error) {
	e, err := k.store.Get(ctx, k.key(group, s))
	switch {
	case err != nil:
		return Checkpoint{}, err
	case e.Rev == 0:
		return Checkpoint{}, ErrNoCheckpoint
	}
	return decodeCheckpoint(e.Value)
}

func (k *casCheckpoints) Save(ctx context.Context, c Checkpoint) error {
	value, err := encodeCheckpoint(c)
	if err != nil {
		return &opError{"checkpoint", err, cas.NotApplied}
	}
	key := k.key(c.Group, c.Shard)
	e, err := k.store.Get(ctx, key)
	for err == nil {
		if e.Rev != 0 {
			was, derr := decodeCheckpoint(e.Value)
			if derr != nil {
				return derr
			}
			if was.TopicID != c.TopicID && was.Epoch >= c.Epoch {
				return otherLog(c, was.TopicID)
			}
			if was.TopicID == c.TopicID && newest(placeOf(was), placeOf(c)) <= 0 {
				return nil
			}
		}
		_, err = k.store.Commit(ctx, cas.Txn{If: []cas.Cond{cas.AtRev(key, e.Rev)}, Then: []cas.Op{cas.Put(key, value)}})
		conflict, ok := errors.AsType[*cas.ConflictError](err)
		if !ok {
			return err
		}
		e, err = conflict.Current[0], nil // each turn somebody else has come forward
	}
	return err
}

// otherLog: what would be put in place of a checkpoint of another topic is not known to be newer.
func otherLog(c Checkpoint, topicID string) error {
	return refused("checkpoint of shard %d of group %q, in topic %s with id %s: one of a topic with id %s is there that is not older: "+
		"the topic was deleted and made anew; delete the checkpoints of the one that is gone", c.Shard, c.Group, c.Topic, c.TopicID, topicID)
}

// Directory keeps checkpoints as files in a directory, which it makes if need be: "group/shard-epoch-offset-topicid.checkpoint". To be restored
// elsewhere it has to be one that all nodes share, with renames that replace at once. Of each shard the newest two are kept.
func Directory(path string) Checkpoints { return directory(path) }

type directory string

const (
	checkpointSuffix = ".checkpoint"
	halfWritten      = ".checkpoint-" // begins the names of files that aren't whole yet
)

// place says which checkpoint a file holds: where in which log.
type place struct {
	epoch, offset int64
	topicID       string
}

func placeOf(c Checkpoint) place { return place{int64(c.Epoch), c.Offset, c.TopicID} }

// newest compares for an order that begins with the newest. Epochs come first, for offsets of a topic that was made anew begin anew. In one log
// the order of epochs is that of offsets: a new owner's marker comes after all that older ones' checkpoints can cover.
func newest(a, b place) int {
	return cmp.Or(cmp.Compare(b.epoch, a.epoch), cmp.Compare(b.offset, a.offset), strings.Compare(b.topicID, a.topicID))
}

// list is a shard's checkpoints, the newest first.
func (d directory) list(group string, s int) ([]place, error) {
	entries, err := os.ReadDir(filepath.Join(string(d), group))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &opError{"checkpoint", err, cas.NotApplied}
	}
	var found []place
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), checkpointSuffix)
		name, ours := strings.CutPrefix(name, fmt.Sprintf("%05d-", s))
		part := strings.SplitN(name, "-", 3) // a topic's id may have a - in it
		if !ok || !ours || len(part) != 3 {
			continue
		}
		epoch, err := strconv.ParseInt(part[0], 10, 64)
		offset, err2 := strconv.ParseInt(part[1], 10, 64)
		if err == nil && err2 == nil {
			found = append(found, place{epoch, offset, part[2]})
		}
	}
	slices.SortFunc(found, newest)
	return found, nil
}

func (d directory) file(group string, s int, at place) string {
	return filepath.Join(string(d), group, fmt.Sprintf("%05d-%020d-%020d-%s%s", s, at.epoch, at.offset, at.topicID, checkpointSuffix))
}

func (d directory) Load(_ context.Context, group string, s int) (Checkpoint, error) {
	for range 3 { // another node may replace what was listed
		found, err := d.list(group, s)
		if err != nil {
			return Checkpoint{}, err
		}
		if len(found) == 0 {
			return Checkpoint{}, ErrNoCheckpoint
		}
		data, err := os.ReadFile(d.file(group, s, found[0]))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return Checkpoint{}, &opError{"checkpoint", err, cas.NotApplied}
		}
		c, err := decodeCheckpoint(data)
		if err == nil && placeOf(c) != found[0] {
			err = refused("checkpoint: can't be read: %s is not what its name says: was it renamed?", d.file(group, s, found[0]))
		}
		return c, err
	}
	return Checkpoint{}, refused("checkpoint: %s: files go while they are read", d)
}

// Save writes a file of its own, so that nobody has to be kept from writing at the same time: the name says which is the newest.
func (d directory) Save(_ context.Context, c Checkpoint) error {
	if _, err := d.among(c); err != nil {
		return err
	}
	data, err := encodeCheckpoint(c)
	if err == nil {
		err = os.MkdirAll(filepath.Join(string(d), c.Group), 0o777)
	}
	if err == nil {
		err = replaceFile(d.file(c.Group, c.Shard, placeOf(c)), data)
	}
	if err != nil {
		return &opError{"checkpoint", err, cas.NotApplied}
	}
	found, err := d.among(c) // another log's may have come at the same time
	if err != nil {
		return err
	}
	for _, old := range found[min(2, len(found)):] {
		_ = os.Remove(d.file(c.Group, c.Shard, old))
	}
	d.sweep(c.Group)
	return nil
}

// sweep removes what crashes have left half written. An hour is far longer than a write takes, and than clocks of nodes are apart.
func (d directory) sweep(group string) {
	entries, _ := os.ReadDir(filepath.Join(string(d), group))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), halfWritten) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(filepath.Join(string(d), group, e.Name()))
		}
	}
}

// among lists the checkpoints of c's shard, and fails if c is not known to be newer than one of another log.
func (d directory) among(c Checkpoint) ([]place, error) {
	found, err := d.list(c.Group, c.Shard)
	for _, f := range found {
		if f.topicID != c.TopicID && f.epoch >= int64(c.Epoch) {
			return nil, otherLog(c, f.topicID)
		}
	}
	return found, err
}

// replaceFile puts data at path as a whole, durably, or leaves what is there.
func replaceFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), halfWritten+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil // not on every system; the file is there
	}
	_ = dir.Sync()
	return dir.Close()
}
