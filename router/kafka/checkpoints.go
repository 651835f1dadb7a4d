package kafka

import (
	"bytes"
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
			if was.Offset >= c.Offset && was.TopicID == c.TopicID {
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

// Directory keeps checkpoints as files in a directory, which it makes if need be: "group/shard-offset.checkpoint". To be restored elsewhere it has
// to be one that all nodes share, with renames that replace at once. Of each shard the newest two are kept.
func Directory(path string) Checkpoints { return directory(path) }

type directory string

const checkpointSuffix = ".checkpoint"

// list is the offsets of a shard's checkpoints, highest first.
func (d directory) list(group string, s int) ([]int64, error) {
	entries, err := os.ReadDir(filepath.Join(string(d), group))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &opError{"checkpoint", err, cas.NotApplied}
	}
	var found []int64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), checkpointSuffix)
		part, ours := strings.CutPrefix(name, fmt.Sprintf("%05d-", s))
		if offset, err := strconv.ParseInt(part, 10, 64); ok && ours && err == nil {
			found = append(found, offset)
		}
	}
	slices.SortFunc(found, func(a, b int64) int { return int(min(1, max(-1, b-a))) })
	return found, nil
}

func (d directory) file(group string, s int, offset int64) string {
	return filepath.Join(string(d), group, fmt.Sprintf("%05d-%020d%s", s, offset, checkpointSuffix))
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
		return decodeCheckpoint(data)
	}
	return Checkpoint{}, refused("checkpoint: %s: files go while they are read", d)
}

// Save writes a file of its own, so that nobody has to be kept from writing at the same time: the name says which is the newest.
func (d directory) Save(_ context.Context, c Checkpoint) error {
	data, err := encodeCheckpoint(c)
	if err == nil {
		err = os.MkdirAll(filepath.Join(string(d), c.Group), 0o777)
	}
	if err == nil {
		err = replaceFile(d.file(c.Group, c.Shard, c.Offset), data)
	}
	if err != nil {
		return &opError{"checkpoint", err, cas.NotApplied}
	}
	found, err := d.list(c.Group, c.Shard)
	if err != nil {
		return nil // it is saved; what is too much goes next time
	}
	for _, offset := range found[min(2, len(found)):] {
		_ = os.Remove(d.file(c.Group, c.Shard, offset))
	}
	return nil
}

// replaceFile puts data at path as a whole, durably, or leaves what is there.
func replaceFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".checkpoint-*")
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
