package memkv_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/memkv"
)

// What a node must be able to tell after etcd was restored (etcd#16028).
func TestCase_etcd16028_RestoreTurnsRevisionsBack(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *memkv.Client) {
		l, err := a.Grant(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.PutLeased("leased", nil, l.ID)}}); err != nil {
			t.Fatal(err)
		}
		kept := put(t, a, "kept")
		backup := a.Server().Backup()
		changes := a.Watch(t.Context(), "", kept)
		put(t, a, "later")
		seen := put(t, a, "later")
		<-changes
		<-changes

		time.Sleep(8 * time.Second)
		a.Server().Restore(backup, 77)
		snap, err := a.List(t.Context(), "")
		if err != nil || snap.Rev != kept || snap.Cluster != 77 || len(snap.Entries) != 2 {
			t.Errorf("got %+v, %v", snap, err)
		}
		if _, err := a.Digest(t.Context(), "", seen); !errors.Is(err, cas.ErrFutureRev) {
			t.Errorf("digest at a revision that is in the future again: got error %v", err)
		}
		time.Sleep(8 * time.Second) // beyond the old deadline: the lease has begun anew
		if !has(t, a, "leased") {
			t.Error("the lease did not get its full TTL")
		}
		for range 2 {
			put(t, a, "other") // under revisions that the watch has had
		}
		if rev := put(t, a, "other"); (<-changes).Rev != rev {
			t.Errorf("the watch does not go on with revision %d", rev)
		}
		time.Sleep(3 * time.Second)
		if has(t, a, "leased") {
			t.Error("the lease did not expire")
		}
	})
}

func TestRestoreOfTheZeroBackup(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *memkv.Client) {
		put(t, a, "k")
		a.Server().Restore(memkv.Backup{}, 0)
		snap, err := a.List(t.Context(), "")
		if err != nil || snap.Rev != 1 || snap.Cluster != 1 || len(snap.Entries) != 0 {
			t.Errorf("got %+v, %v", snap, err)
		}
	})
}
