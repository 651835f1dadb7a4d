package accounts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// guarded is an etcd with authentication on. Its users have their names for passwords.
type guarded struct {
	endpoint string
	root     *clientv3.Client
}

func guard(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{endpoint: startEtcd(t, nil)}
	enableAuth(t, etcdtest.Dial(t, clientv3.Config{Endpoints: []string{g.endpoint}}))
	g.root = g.dial(t, "root")
	return g
}

func enableAuth(t *testing.T, open *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	for _, err := range []error{
		second(open.RoleAdd(ctx, "root")),
		second(open.UserAdd(ctx, "root", "root")),
		second(open.UserGrantRole(ctx, "root", "root")),
		second(open.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func (g *guarded) dial(t *testing.T, user string) *clientv3.Client {
	t.Helper()
	return etcdtest.Dial(t, clientv3.Config{Endpoints: []string{g.endpoint}, Username: user, Password: user, DialTimeout: time.Minute})
}

// permission is one of a role: on all keys with a prefix.
type permission struct {
	kind   clientv3.PermissionType
	prefix string
}

const (
	read      = clientv3.PermissionType(clientv3.PermRead)
	write     = clientv3.PermissionType(clientv3.PermWrite)
	readWrite = clientv3.PermissionType(clientv3.PermReadWrite)
)

// store is one that user has opened, who has these permissions and no others.
func (g *guarded) store(t *testing.T, user string, all ...permission) cas.Store {
	t.Helper()
	ctx := t.Context()
	errs := []error{second(g.root.RoleAdd(ctx, user)), second(g.root.UserAdd(ctx, user, user)), second(g.root.UserGrantRole(ctx, user, user))}
	for _, p := range all {
		errs = append(errs, second(g.root.RoleGrantPermission(ctx, user, p.prefix, clientv3.GetPrefixRangeEnd(p.prefix), p.kind)))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s := etcdkv.New(g.dial(t, user))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// bank is a group like the program's.
var bank = shard.Group{Name: "accounts", Shards: 16}

// member runs a node on s until it is told to leave, which returns its error.
func member(t *testing.T, s cas.Store, g shard.Group, id string) (leave func() error) {
	t.Helper()
	idle := func(ctx context.Context, t *owner.Tenure) error {
		t.Ready()
		<-ctx.Done()
		return nil
	}
	n, err := owner.New(s, g, idle, owner.Config{ID: id, Address: "127.0.0.1:1", Settle: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	left := false
	leave = func() error {
		if left {
			return nil
		}
		left = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = leave() })
	return leave
}

// owned counts the group's shards that each member owns, as t shows it.
func owned(t *router.Table, g shard.Group) map[string]int {
	n := make(map[string]int)
	seen := make(map[int]bool)
	for i := 0; len(seen) < g.Shards; i++ {
		key := fmt.Sprint(i)
		if s := g.Of(key); !seen[s] {
			seen[s] = true
			if m, _ := t.Owner(key); m != nil {
				n[m.ID]++
			}
		}
	}
	return n
}

// What docs/kubernetes.md calls the least role lets nodes join, share, hand over and leave, and an operator drain; read
// alone is enough for a gateway. Nobody may touch another group.
func TestLeastRole(t *testing.T) {
	g := guard(t)
	all := g.store(t, "service", permission{readWrite, "/tenure/accounts/"})
	table, err := router.Open(t.Context(), g.store(t, "gateway", permission{read, "/tenure/accounts/"}), bank, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	want := func(what string, is func(owned map[string]int) bool) {
		t.Helper()
		until(t, time.Minute, what, func() bool { return is(owned(table, bank)) })
	}

	leaveA := member(t, all, bank, "a")
	want("a to own all", func(n map[string]int) bool { return n["a"] == bank.Shards })
	leaveB := member(t, all, bank, "b")
	want("a and b to share", func(n map[string]int) bool { return n["a"] == bank.Shards/2 && n["b"] == bank.Shards/2 })
	admin := owner.NewAdmin(all, bank)
	if err := admin.Drain(t.Context(), func(m shard.Member) bool { return m.ID == "b" }); err != nil {
		t.Fatal(err)
	}
	want("b to be drained", func(n map[string]int) bool { return n["a"] == bank.Shards })
	if err := admin.Undrain(t.Context(), func(shard.Member) bool { return true }); err != nil {
		t.Fatal(err)
	}
	want("a and b to share again", func(n map[string]int) bool { return n["b"] == bank.Shards/2 })
	if err := leaveA(); err != nil {
		t.Errorf("a leaves: %v", err)
	}
	want("b to own all", func(n map[string]int) bool { return n["b"] == bank.Shards })
	if err := leaveB(); err != nil {
		t.Errorf("b leaves: %v", err)
	}

	other := shard.Group{Name: "accounts-2", Shards: 16}
	for _, g := range []shard.Group{other, {Name: "orders", Shards: 16}} {
		if err := joinWith(t, all, g); !errors.Is(err, cas.ErrDenied) {
			t.Errorf("a node of group %q under the role for accounts: got %v, want %v", g.Name, err, cas.ErrDenied)
		}
	}
}

// joinWith is what a node ends with that joins g on s. One that needs to be told to end has an error that says so.
func joinWith(t *testing.T, s cas.Store, g shard.Group) error {
	t.Helper()
	n, err := owner.New(s, g, func(context.Context, *owner.Tenure) error { return nil }, owner.Config{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = n.Run(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("it had to be told to end, and ended with: %w", errors.Join(errors.New("no refusal"), err))
	}
	return err
}

// Less than that does not do: a node says so at once, instead of being half a member.
func TestLeastRole_LessIsRefused(t *testing.T) {
	g := guard(t)
	// The group is there already, so that nobody has to create it.
	all := g.store(t, "service", permission{readWrite, "/tenure/accounts/"})
	member(t, all, bank, "a")
	for user, less := range map[string][]permission{
		"nothing":      nil,
		"read-only":    {{read, "/tenure/accounts/"}},
		"write-only":   {{write, "/tenure/accounts/"}},
		"no-slash":     {{readWrite, "/tenure/account/"}},
		"members-only": {{readWrite, "/tenure/accounts/members/"}},
		"no-members":   {{read, "/tenure/accounts/"}, {readWrite, "/tenure/accounts/claims/"}, {readWrite, "/tenure/accounts/moves/"}},
	} {
		t.Run(user, func(t *testing.T) {
			if err := joinWith(t, g.store(t, user, less...), bank); !errors.Is(err, cas.ErrDenied) {
				t.Errorf("got %v, want %v", err, cas.ErrDenied)
			}
		})
	}
	t.Run("gateway without read", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		table, err := router.Open(ctx, g.store(t, "blind", permission{write, "/tenure/accounts/"}), bank, nil)
		if err == nil {
			_ = table.Close()
			t.Fatal("a table opened without permission to read")
		}
		t.Log(err)
	})
}

// The script makes the user and the role that the program gets on with, by its certificate's name.
func TestRoleScript(t *testing.T) {
	ca := newAuthority(t)
	endpoint := startEtcd(t, ca)
	ca.pair(t, "root")
	secure, err := ca.clientOf("root")
	if err != nil {
		t.Fatal(err)
	}
	root := etcdtest.Dial(t, clientv3.Config{Endpoints: []string{endpoint}, TLS: secure})
	enableAuth(t, root)
	runRoleScript(t, endpoint, ca)
	role, err := root.RoleGet(t.Context(), "accounts")
	if err != nil {
		t.Fatal(err)
	}
	prefix := group.Prefix + "/" + group.Name + "/"
	if len(role.Perm) != 1 || string(role.Perm[0].Key) != prefix || string(role.Perm[0].RangeEnd) != clientv3.GetPrefixRangeEnd(prefix) ||
		clientv3.PermissionType(role.Perm[0].PermType) != readWrite {
		t.Errorf("the script's role: got %v, want read and write for %s and nothing else", role.Perm, prefix)
	}

	accountsCert, accountsKey := ca.pair(t, "accounts")
	args := []string{
		"-log-json", "-http=127.0.0.1:0", "-grpc=127.0.0.1:0", "-debug=127.0.0.1:0", "-data=" + t.TempDir(), "-linger=10ms",
		"-etcd=" + endpoint, "-etcd-ca=" + filepath.Join(ca.dir, "ca.crt"),
	}
	p := launch(t, t.TempDir(), "accounts", append(args, "-etcd-cert="+accountsCert, "-etcd-key="+accountsKey), nil)
	serves(t, p)
	p.end(t)

	// Another's certificate, signed by the same authority, is of no use.
	strangerCert, strangerKey := ca.pair(t, "stranger")
	cmd := exec.CommandContext(t.Context(), built.path(t), append(args, "-etcd-cert="+strangerCert, "-etcd-key="+strangerKey)...)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("with a stranger's certificate the program ended well, want an error:\n%s", out)
	} else {
		t.Logf("with a stranger's certificate: %v:\n%s", err, out)
	}
}

// runRoleScript runs deploy/etcd-role.sh as root, with this test's program for etcdctl.
func runRoleScript(t *testing.T, endpoint string, ca *authority) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "etcdctl")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(top(t), "examples/accounts/deploy/etcd-role.sh"))
	cmd.Env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "ETCDCTL_ENDPOINTS=" + endpoint, "ETCDCTL_CACERT=" + filepath.Join(ca.dir, "ca.crt"),
		"ETCDCTL_CERT=" + filepath.Join(ca.dir, "root.crt"), "ETCDCTL_KEY=" + filepath.Join(ca.dir, "root.key"),
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("etcd-role.sh: %v\n%s", err, out)
	}
}

// startEtcd starts an etcd that soon knows a password when it sees one. With an authority it serves TLS, and knows clients by their
// certificates.
func startEtcd(t *testing.T, ca *authority) (endpoint string) {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	c.TickMs, c.ElectionMs = 10, 100
	c.UnsafeNoFsync = true
	c.BcryptCost = 4 // the least
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	scheme := "http"
	if ca != nil {
		scheme = "https"
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = ca.pair(t, "etcd")
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = filepath.Join(ca.dir, "ca.crt"), true
	}
	clients := []url.URL{{Scheme: scheme, Host: "127.0.0.1:0"}}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port for peers can't be left to the system
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	peers := []url.URL{{Scheme: "http", Host: l.Addr().String()}}
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = clients, clients, peers, peers
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd was not ready within a minute")
	}
	return scheme + "://" + e.Clients[0].Addr().String()
}
