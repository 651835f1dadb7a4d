package kafka

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/shard"
)

// An owner that is new and has read little is ahead of one that was replaced and has read more: in one log the order of epochs is that of offsets.
func TestCheckpoints_GoByTheEpoch(t *testing.T) {
	made := func(epoch shard.Epoch, offset int64) Checkpoint {
		c := checkpoint(offset)
		c.Epoch = epoch
		return c
	}
	for name, c := range stores(t) {
		t.Run(name, func(t *testing.T) {
			for _, next := range []Checkpoint{made(5, 900), made(7, 3), made(6, 2000), made(7, 2)} {
				if err := c.Save(t.Context(), next); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.Load(t.Context(), "g", 3)
			if diff := cmp.Diff(made(7, 3), got); diff != "" || err != nil {
				t.Errorf("load: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// Two logs' checkpoints of which nobody knows which is the newer are saved at the same time, each before the other can be seen. At least one is told.
func TestDirectory_TwoLogsAtTheSameTime(t *testing.T) {
	for round := range 20 {
		d := directory(t.TempDir())
		var errs [2]error
		var wg sync.WaitGroup
		for i := range errs {
			c := checkpoint(7)
			c.TopicID = fmt.Sprintf("log-%d", i)
			wg.Go(func() { errs[i] = d.Save(t.Context(), c) })
		}
		wg.Wait()
		if errs[0] == nil && errs[1] == nil {
			t.Fatalf("round %d: both were saved, want a refusal of one at least", round)
		}
	}
}

// The name says which is the newest, so one that says something else would hide others.
func TestDirectory_RefusesARenamedFile(t *testing.T) {
	d := directory(t.TempDir())
	if err := d.Save(t.Context(), checkpoint(7)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.file("g", 3, placeOf(checkpoint(7))), d.file("g", 3, placeOf(checkpoint(9)))); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load(t.Context(), "g", 3); err == nil || !strings.Contains(err.Error(), "renamed") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// What a crash has left half written is removed in time, and what is being written is not.
func TestDirectory_RemovesWhatCrashesLeave(t *testing.T) {
	d := directory(t.TempDir())
	if err := d.Save(t.Context(), checkpoint(7)); err != nil {
		t.Fatal(err)
	}
	left, under := filepath.Join(string(d), "g", ".checkpoint-1"), filepath.Join(string(d), "g", ".checkpoint-2")
	for _, path := range []string{left, under} {
		if err := os.WriteFile(path, []byte("{"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := errors.Join(os.Chtimes(left, old, old), d.Save(t.Context(), checkpoint(8))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("left by a crash two hours ago: got %v, want that it is gone", err)
	}
	if _, err := os.Stat(under); err != nil {
		t.Errorf("being written: got %v, want that it is there", err)
	}
	if found, err := d.list("g", 3); len(found) != 2 || err != nil {
		t.Errorf("checkpoints: got %v, %v, want 2", found, err)
	}
}
