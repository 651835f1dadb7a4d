package idem

import (
	"testing"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/idem"
	"github.com/tenure-go/tenure/idem/idemtest"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

func TestEtcd(t *testing.T) {
	server := etcdtest.Start(t, etcdtest.Config{})
	idemtest.Suite{Open: func(*testing.T) idemtest.Harness {
		return idemtest.Harness{Open: func(t testing.TB) idem.Store {
			store := etcdkv.New(server.Client(t))
			t.Cleanup(func() { _ = store.Close() })
			return idem.OnCAS(store, "")
		}}
	}}.Run(t)
}
