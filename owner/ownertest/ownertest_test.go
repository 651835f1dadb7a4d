package ownertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/ownertest"
	"github.com/tenure-go/tenure/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var accounts = shard.Group{Name: "accounts", Shards: 16}

func serve(ctx context.Context, t *owner.Tenure) error {
	t.Ready()
	<-ctx.Done()
	return nil
}

func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 3, accounts, serve, owner.Config{})
		for _, key := range []string{"alice", "bob", "carol"} {
			at := c.Owner(key)
			ran := false
			err := c.Nodes[at].Do(t.Context(), key, func(ctx context.Context, tn *owner.Tenure) error {
				ran = tn.Owns(key) && tn == c.Tenure(key)
				return nil
			})
			if err != nil || !ran {
				t.Errorf("Do(%s) at its owner: got %v, ran in its tenure %v", key, err, ran)
			}
			other := (at + 1) % 3
			err = c.Nodes[other].Do(t.Context(), key, func(context.Context, *owner.Tenure) error { return nil })
			if no, ok := errors.AsType[*owner.NotOwnerError](err); !ok || no.Owner.ID == "" {
				t.Errorf("Do(%s) elsewhere: got %v, want a NotOwnerError that names the owner", key, err)
			}
		}
	})
}

func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 3, accounts, serve, owner.Config{})
		from := c.Owner("alice")
		old := c.Tenure("alice")
		to := (from + 1) % 3
		c.Move("alice", to)
		if got := c.Owner("alice"); got != to {
			t.Errorf("owner after Move: got node %d, want %d", got, to)
		}
		if now := c.Tenure("alice"); now.Token().Epoch <= old.Token().Epoch {
			t.Errorf("epoch after Move: got %v, want above %v", now.Token().Epoch, old.Token().Epoch)
		}
		if err := old.Err(); err != owner.ErrHandoff {
			t.Errorf("a handed-over tenure's Err: got %v, want ErrHandoff: it was not lost", err)
		}
	})
}

func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownertest.Start(t, 3, accounts, serve, owner.Config{})
		old, at := c.Tenure("alice"), c.Owner("alice")
		c.Lose("alice")
		c.Settle()
		if got := c.Owner("alice"); got == at {
			t.Fatalf("owner after Lose: got the same node %d", got)
		}
		if now := c.Tenure("alice"); now.Token().Epoch <= old.Token().Epoch {
			t.Errorf("epoch after Lose: got %v, want above %v", now.Token().Epoch, old.Token().Epoch)
		}
		time.Sleep(5 * time.Second)
		if err := old.Err(); err == nil {
			t.Error("the lost tenure's Err: got nil")
		}
		c.Cut(at, false)
		c.Settle()
	})
}
