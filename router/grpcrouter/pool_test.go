package grpcrouter

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/tenure-go/tenure/cas"
)

func get(t *testing.T, p *pool, target string) (*link, func()) {
	t.Helper()
	l, done, err := p.get(target)
	if err != nil {
		t.Fatal(err)
	}
	return l, done
}

// Connections to members that are gone are closed once others have come; those in use, or used lately, are kept.
func TestPoolForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(dialOptions(nil))
		defer p.close()
		gone, done := get(t, p, "gone:1")
		done()
		done() // once more does no harm
		busy, _ := get(t, p, "busy:1")
		time.Sleep(idleAfter + time.Second)
		late, lateDone := get(t, p, "late:1")
		lateDone()
		if got := gone.GetState(); got != connectivity.Shutdown {
			t.Errorf("unused: got %v, want it closed", got)
		}
		if l, _ := get(t, p, "busy:1"); l != busy || busy.GetState() == connectivity.Shutdown {
			t.Error("one in use was closed")
		}
		time.Sleep(idleAfter / 2)
		if l, done := get(t, p, "late:1"); l != late {
			t.Error("one used lately was closed")
		} else {
			done()
		}
		if again, _ := get(t, p, "gone:1"); again == gone {
			t.Error("got the closed one")
		}
	})
}

func TestPoolCloses(t *testing.T) {
	p := newPool(dialOptions([]grpc.DialOption{grpc.WithUserAgent("x")}))
	l, _ := get(t, p, "a:1")
	p.close()
	p.close()
	if l.GetState() != connectivity.Shutdown {
		t.Error("still open")
	}
	if _, _, err := p.get("a:1"); cas.OutcomeOf(err) != cas.NotApplied || err == nil {
		t.Errorf("got %v, want an error whose outcome is not applied", err)
	}
}
