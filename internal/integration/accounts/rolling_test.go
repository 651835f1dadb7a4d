package accounts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/internal/integration/etcdtest"
	"github.com/tenure-go/tenure/router"
	"github.com/tenure-go/tenure/shard"
)

// group is the program's.
var group = shard.Group{Name: "accounts", Shards: 64}.WithDefaults()

// I10, and what README promises: restarts in good order fail no request, over HTTP and over gRPC.
func TestI10_RollingRestartOfTheServiceFailsNoRequest(t *testing.T) {
	atOnce, rounds := 50, 1
	if *full {
		atOnce, rounds = 200, 10
	}
	if *inFlight > 0 {
		atOnce = *inFlight
	}
	server := etcdtest.Start(t, etcdtest.Config{Fsync: true})
	f := startFleet(t, server.Endpoint)
	accounts := oneInEachShard()
	owners := follow(t, server, accounts)
	l := newLoad(f, accounts)

	ctx, rest := context.WithCancel(t.Context())
	var company sync.WaitGroup
	company.Go(func() { l.run(ctx, atOnce) })
	defer company.Wait()
	defer rest()
	l.warm(t)
	r := &restarts{moved: make(map[string][]span)}
	for n := range rounds {
		began := time.Now()
		for i := range f.running {
			r.one(t, f, i, n, l, owners)
		}
		t.Logf("round %d of %d: all processes restarted in %.1fs", n+1, rounds, time.Since(began).Seconds())
	}
	l.warm(t)
	rest()
	company.Wait()

	overHTTP, overGRPC, failed := l.counts()
	for _, why := range failed[:min(len(failed), 5)] {
		t.Errorf("failed: %s", why)
	}
	t.Logf("%d requests over HTTP and %d over gRPC, %d at a time: %d failed", overHTTP, overGRPC, atOnce, len(failed))
	if overHTTP == 0 || overGRPC == 0 || len(r.moved) == 0 {
		t.Error("nothing was proved: want requests over both, and accounts that changed their owner")
	}
	r.print(t, l)
	l.audit(t)
}

// startFleet starts three processes, or five with -full, and the load balancer.
func startFleet(t *testing.T, etcd string) *fleet {
	t.Helper()
	f := &fleet{
		dir: t.TempDir(), running: make([]*process, 3),
		args: []string{"-log-json", "-http=127.0.0.1:0", "-grpc=127.0.0.1:0", "-debug=127.0.0.1:0", "-etcd=" + etcd},
	}
	if *full {
		f.running = make([]*process, 5)
	} else {
		f.args = append(f.args, "-linger=1s", "-ttl=3s")
	}
	if at := postgres(t); at != "" {
		f.env = append(f.env, "DATABASE_URL="+at)
	} else {
		f.args = append(f.args, "-data="+filepath.Join(f.dir, "data"))
	}
	for i := range f.running {
		f.start(t, i, 0)
	}
	f.balance(t)
	return f
}

// restarts is what was done to the fleet.
type restarts struct {
	all   []span
	moved map[string][]span // by account: those that changed its owner
	ends  gaps              // from SIGTERM to the end of a process
}

// one restarts process i. It waits for nothing but that the new one is ready.
func (r *restarts) one(t *testing.T, f *fleet, i, round int, l *load, owners *owners) {
	t.Helper()
	before, s := owners.epochs(), span{from: l.now()}
	r.ends = append(r.ends, f.end(t, i))
	f.start(t, i, round+1)
	s.to = l.now()
	r.all = append(r.all, s)
	for account, epoch := range owners.epochs() {
		if epoch != before[account] {
			r.moved[account] = append(r.moved[account], s)
		}
	}
	if _, _, failed := l.counts(); len(failed) > 0 {
		t.Fatalf("%d requests failed by the end of restart %d of round %d; the first:\n%s", len(failed), i+1, round+1, failed[0])
	}
}

// print shows for how long clients had to wait.
func (r *restarts) print(t *testing.T, l *load) {
	t.Helper()
	for _, m := range []struct {
		what string
		of   func(acks, restarts []span) gaps
	}{
		{"longest wait of a request", waits},
		{"longest time between two acknowledgements", silences},
	} {
		var changed, same gaps
		for account, acks := range l.acks {
			changed = append(changed, m.of(acks, r.moved[account])...)
			same = append(same, m.of(acks, without(r.all, r.moved[account]))...)
		}
		t.Logf("%s, for each account and restart that changed its owner: %v; that did not: %v", m.what, changed, same)
	}
	t.Logf("from SIGTERM to the end of a process: %v", r.ends)
}

func without(all, some []span) (rest []span) {
	for _, s := range all {
		found := false
		for _, o := range some {
			found = found || s == o
		}
		if !found {
			rest = append(rest, s)
		}
	}
	return rest
}

// oneInEachShard finds accounts, so that each shard has exactly one.
func oneInEachShard() []string {
	accounts := make([]string, group.Shards)
	for i, left := 0, group.Shards; left > 0; i++ {
		id := fmt.Sprintf("account-%d", i)
		if s := group.Of(id); accounts[s] == "" {
			accounts[s] = id
			left--
		}
	}
	return accounts
}

// owners is who owns accounts, as the store has it.
type owners struct {
	table    *router.Table
	accounts []string
}

func follow(t *testing.T, server *etcdtest.Server, accounts []string) *owners {
	t.Helper()
	store := etcdkv.New(server.Client(t))
	table, err := router.Open(t.Context(), store, group, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = table.Close()
		_ = store.Close()
	})
	return &owners{table, accounts}
}

// epochs are those under which accounts are owned now.
func (o *owners) epochs() map[string]shard.Epoch {
	epochs := make(map[string]shard.Epoch, len(o.accounts))
	for _, account := range o.accounts {
		_, epochs[account] = o.table.Owner(account)
	}
	return epochs
}

// ids counts the accounts of each member.
func (o *owners) ids() map[string]int {
	n := make(map[string]int)
	for _, account := range o.accounts {
		if m, _ := o.table.Owner(account); m != nil {
			n[m.ID]++
		}
	}
	return n
}

// all reports whether each account has an owner.
func (o *owners) all() bool {
	n := 0
	for _, some := range o.ids() {
		n += some
	}
	return n == len(o.accounts)
}

// postgres is the URL of a schema of the test's own in the Postgres that the environment names; "" if it names none.
func postgres(t *testing.T) string {
	t.Helper()
	base := os.Getenv("TENURE_TEST_POSTGRES")
	if base == "" {
		return ""
	}
	conn, err := pgx.Connect(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	schema := fmt.Sprintf("accounts_%d_%d", os.Getpid(), rand.IntN(1_000_000))
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	q.Set("pool_max_conns", "16")
	u.RawQuery = q.Encode()
	return u.String()
}
