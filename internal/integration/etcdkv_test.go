package integration

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
	"github.com/tenure-go/tenure/internal/storetest"
)

func TestEtcdkvContract(t *testing.T) {
	storetest.Suite{Open: openEtcd}.Run(t)
}

// openEtcd puts a proxy between the store under test and its etcd.
func openEtcd(t *testing.T) storetest.Harness {
	server := etcdtest.Start(t, etcdtest.Config{})
	proxy := etcdtest.NewProxy(t, server.Endpoint)
	direct := server.Client(t)
	store := etcdkv.New(etcdtest.Dial(t, clientv3.Config{Endpoints: []string{proxy.Addr}}))
	other := etcdkv.New(direct)
	t.Cleanup(func() {
		_ = store.Close()
		_ = other.Close()
	})
	revision := func() int64 { return server.Etcd.Server.KV().Rev() }
	return storetest.Harness{
		Store:  store,
		Other:  other,
		MinTTL: time.Second,
		Late:   500 * time.Millisecond,
		Compact: func(t *testing.T, rev int64) {
			if _, err := direct.Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
				t.Fatalf("compact: %v", err)
			}
		},
		LoseReply: func(*testing.T) {
			before := revision()
			proxy.LoseReply(func(int) bool { return revision() > before })
		},
		LoseRequest: func(*testing.T) {
			proxy.LoseRequest(func(n int) bool { return n >= 4<<10 })
		},
		Cut:    proxy.Cut,
		Refuse: proxy.Refuse,
		Fill: func(t *testing.T, full bool) {
			action := pb.AlarmRequest_ACTIVATE
			if !full {
				action = pb.AlarmRequest_DEACTIVATE
			}
			_, err := server.Etcd.Server.Alarm(t.Context(), &pb.AlarmRequest{
				Action:   action,
				MemberID: uint64(server.Etcd.Server.MemberID()),
				Alarm:    pb.AlarmType_NOSPACE,
			})
			if err != nil {
				t.Fatalf("set the alarm: %v", err)
			}
		},
	}
}
