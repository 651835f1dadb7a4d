package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
)

// requests sends one of each kind, each bounded by limit, and returns their errors.
func requests(t *testing.T, s cas.Store, key string, limit time.Duration) map[string]error {
	t.Helper()
	errs := make(map[string]error)
	do := func(name string, f func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		start := time.Now()
		errs[name] = f(ctx)
		if took := time.Since(start); took > limit+2*time.Second {
			t.Errorf("%s took %v, its context ended after %v", name, took, limit)
		}
	}
	do("get", func(ctx context.Context) error { _, err := s.Get(ctx, key); return err })
	do("list", func(ctx context.Context) error { _, err := s.List(ctx, key); return err })
	do("digest", func(ctx context.Context) error { _, err := s.Digest(ctx, key, 0); return err })
	do("commit", func(ctx context.Context) error {
		_, err := s.Commit(ctx, cas.Txn{If: []cas.Cond{cas.Absent(key)}, Then: []cas.Op{cas.Put(key, nil)}})
		return err
	})
	do("watch", func(ctx context.Context) error {
		for c := range s.Watch(ctx, key, 1) {
			if c.Err != nil {
				return c.Err
			}
		}
		return nil
	})
	return errs
}

func TestEtcdkvWithoutTLSAgainstTLS(t *testing.T) {
	cert, key, trust := etcdtest.Certificate(t)
	server := etcdtest.Start(t, etcdtest.Config{CertFile: cert, KeyFile: key})

	plain := etcdkv.New(etcdtest.Dial(t, clientv3.Config{Endpoints: []string{server.Endpoint}}))
	defer plain.Close()
	for name, err := range requests(t, plain, "k", 8*time.Second) {
		if name == "watch" { // connects in the background, until its context ends
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("watch without TLS: got error %v", err)
			}
			continue
		}
		if !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s without TLS: got error %v, outcome %q", name, err, cas.OutcomeOf(err))
		}
		t.Logf("%s: %v", name, err)
	}

	stranger := etcdkv.New(etcdtest.Dial(t, clientv3.Config{Endpoints: []string{"https://" + server.Endpoint}, TLS: &tls.Config{}}))
	defer stranger.Close()
	_, err := stranger.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
	if !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("without the certificate: got error %v", err)
	}
	t.Log(err)

	good := etcdkv.New(etcdtest.Dial(t, clientv3.Config{Endpoints: []string{"https://" + server.Endpoint}, TLS: &tls.Config{RootCAs: trust}}))
	defer good.Close()
	if _, err := good.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}}); err != nil {
		t.Errorf("with TLS: %v", err)
	}
	if warnings, err := good.Advice(t.Context()); err != nil || len(warnings) != 0 {
		t.Errorf("advice: %v, %v", warnings, err)
	}
}

func TestEtcdkvWithTLSAgainstNone(t *testing.T) {
	server := etcdtest.Start(t, etcdtest.Config{})
	s := etcdkv.New(etcdtest.Dial(t, clientv3.Config{Endpoints: []string{"https://" + server.Endpoint}, TLS: &tls.Config{}}))
	defer s.Close()
	_, err := s.Commit(t.Context(), cas.Txn{Then: []cas.Op{cas.Put("k", nil)}})
	if !errors.Is(err, cas.ErrUnavailable) || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got error %v", err)
	}
	t.Log(err)
}

func TestEtcdkvUsersAndRoles(t *testing.T) {
	server := etcdtest.Start(t, etcdtest.Config{})
	root := server.Client(t)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(root.RoleAdd(ctx, "root"))
	must(root.UserAdd(ctx, "root", "secret"))
	must(root.UserGrantRole(ctx, "root", "root"))
	must(root.RoleAdd(ctx, "app"))
	must(root.RoleGrantPermission(ctx, "app", "app/", clientv3.GetPrefixRangeEnd("app/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(root.UserAdd(ctx, "app", "secret"))
	must(root.UserGrantRole(ctx, "app", "app"))
	must(root.AuthEnable(ctx))

	nobody := etcdkv.New(server.Client(t))
	defer nobody.Close()
	for name, err := range requests(t, nobody, "app/k", 8*time.Second) {
		if !errors.Is(err, cas.ErrDenied) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s without a user: got error %v, outcome %q", name, err, cas.OutcomeOf(err))
		}
	}

	app := etcdkv.New(etcdtest.Dial(t, clientv3.Config{Endpoints: []string{server.Endpoint}, Username: "app", Password: "secret"}))
	defer app.Close()
	for name, err := range requests(t, app, "other/k", 8*time.Second) {
		if !errors.Is(err, cas.ErrDenied) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("%s outside its role: got error %v, outcome %q", name, err, cas.OutcomeOf(err))
		}
	}

	lease, err := app.Grant(ctx, time.Minute)
	must(nil, err)
	changes := app.Watch(ctx, "app/", lease.Rev)
	rev, err := app.Commit(ctx, cas.Txn{If: []cas.Cond{cas.Absent("app/k")}, Then: []cas.Op{cas.PutLeased("app/k", nil, lease.ID)}})
	must(nil, err)
	if c := <-changes; c.Rev != rev {
		t.Errorf("got %v, want revision %d", c, rev)
	}
	if _, err := app.Renew(ctx, lease.ID); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := app.Revoke(ctx, lease.ID); err != nil {
		t.Errorf("revoke: %v", err)
	}
}
