package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tenure-go/tenure/cas/memkv"
	"github.com/tenure-go/tenure/shard"
)

func stores(t *testing.T) map[string]Checkpoints {
	return map[string]Checkpoints{"cas": OnCAS(memkv.New(), "/c"), "directory": Directory(filepath.Join(t.TempDir(), "made"))}
}

func checkpoint(offset int64) Checkpoint {
	return Checkpoint{
		Group: "g", GroupID: "G", Shard: 3, Topic: "t", TopicID: "id", Epoch: 1 << 60, Offset: offset, Next: offset * 2,
		Taken: time.Unix(1, 0).UTC(), State: fmt.Appendf(nil, "state\nat %d", offset),
	}
}

func TestCheckpoints_KeepTheNewest(t *testing.T) {
	for name, c := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if _, err := c.Load(ctx, "g", 3); !errors.Is(err, ErrNoCheckpoint) {
				t.Errorf("load of none: got %v, want ErrNoCheckpoint", err)
			}
			var wg sync.WaitGroup
			for _, offset := range []int64{5, 100, 7, 99, 20, 3} { // a zombie's comes late, and is older
				wg.Go(func() {
					if err := c.Save(ctx, checkpoint(offset)); err != nil {
						t.Errorf("save: %v", err)
					}
				})
			}
			wg.Wait()
			if err := c.Save(ctx, checkpoint(8)); err != nil {
				t.Errorf("save of an older one: %v", err)
			}
			got, err := c.Load(ctx, "g", 3)
			if diff := cmp.Diff(checkpoint(100), got); diff != "" || err != nil {
				t.Errorf("load: %v (-want +got):\n%s", err, diff)
			}
			if _, err := c.Load(ctx, "g", 4); !errors.Is(err, ErrNoCheckpoint) {
				t.Errorf("load of another shard: got %v, want ErrNoCheckpoint", err)
			}
		})
	}
}

// One that was cut, as by a full disk, is an error and not an empty state.
func TestDirectory_RefusesWhatWasCut(t *testing.T) {
	dir := t.TempDir()
	d := directory(dir)
	if err := d.Save(context.Background(), checkpoint(7)); err != nil {
		t.Fatal(err)
	}
	path := d.file("g", 3, placeOf(checkpoint(7)))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 10, len(data) - 1} {
		if err := os.WriteFile(path, data[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Load(context.Background(), "g", 3); err == nil || !strings.Contains(err.Error(), "can't be read") {
			t.Errorf("%d of %d bytes: got %v, want an error", n, len(data), err)
		}
	}
}

func TestDirectory_KeepsTwo(t *testing.T) {
	d := directory(t.TempDir())
	for _, offset := range []int64{1, 2, 3, 4} {
		if err := d.Save(context.Background(), checkpoint(offset)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.list("g", 3)
	want := []place{placeOf(checkpoint(4)), placeOf(checkpoint(3))}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(place{})); diff != "" || err != nil {
		t.Errorf("kept: %v (-want +got):\n%s", err, diff)
	}
	if _, err := directory(filepath.Join(string(d), "g", filepath.Base(d.file("g", 3, want[0])))).list("x", 0); err == nil {
		t.Error("list under a file: got nil, want an error")
	}
}

// A topic was deleted and made anew, and somebody has cleaned up only half: a checkpoint of the old log, far ahead by its offset, comes back
// or comes late. It neither hides the new log's, nor pushes it out, nor has it thought safe when it is not.
func TestCheckpoints_TellALogFromItsSuccessor(t *testing.T) {
	made := func(id string, epoch shard.Epoch, offset int64) Checkpoint {
		c := checkpoint(offset)
		c.TopicID, c.Epoch = id, epoch
		return c
	}
	for name, c := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			for _, next := range []Checkpoint{made("old-log", 5, 900), made("old-log", 6, 1000), made("new-log", 7, 3), made("new-log", 7, 9)} {
				if err := c.Save(ctx, next); err != nil {
					t.Fatal(err)
				}
				if got, err := c.Load(ctx, "g", 3); err != nil || got.TopicID != next.TopicID || got.Offset != next.Offset {
					t.Errorf("loaded after %s@%d was saved: %s@%d, %v", next.TopicID, next.Offset, got.TopicID, got.Offset, err)
				}
			}
			for _, epoch := range []shard.Epoch{6, 7} { // of a zombie's, and of one whose age can't be told
				if err := c.Save(ctx, made("old-log", epoch, 2000)); err == nil || !strings.Contains(err.Error(), "made anew") {
					t.Errorf("save of one of the old log under epoch %d: got %v, want a refusal", epoch, err)
				}
			}
			got, err := c.Load(ctx, "g", 3)
			if err != nil || got.TopicID != "new-log" || got.Offset != 9 {
				t.Errorf("loaded at last: %s@%d, %v: want the new log's", got.TopicID, got.Offset, err)
			}
		})
	}
}
