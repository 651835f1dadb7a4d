package rival

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/etcdkv"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/writer"
)

// OnEtcd is every contender whose balances are keys of etcd.
func OnEtcd(p *Places, w Work) On {
	cs := []measure.Contender{
		etcdContender(p, w, false, "STM", "concurrency.NewSTM, serializable", stm),
		etcdContender(p, w, true, "Tenure, cas.Update", "optimistic; no owner", update),
	}
	for _, c := range lockContenders(p, w, etcdEffect) {
		if strings.HasPrefix(c.Name, "etcd") {
			cs = append(cs, c)
		}
	}
	form := func(name, note string, c writer.Config) measure.Contender {
		return ownedContender(name, note, func(ctx context.Context) (*owned, func(context.Context) (int64, error), func(), error) {
			t := newEtcdTable(p, w)
			n, err := newOwned(ctx, p, w, t.open, c)
			return n, t.sum, t.drop, err
		})
	}
	cs = append(cs,
		form("Tenure, owner singly", "a put for each request, guarded by the claim (Tenure.Guard)", writer.Config{MaxBatch: 1}),
		form("Tenure, writer, coalesced", "group commit, one guarded put for an account and batch", writer.Config{MaxBatch: cas.MaxOps}),
	)
	return On{"etcd", cs}
}

type etcdTable struct {
	client *clientv3.Client
	kv     *etcdkv.Store
	prefix string
	names  []string
}

func newEtcdTable(p *Places, w Work) *etcdTable {
	t := &etcdTable{p.Etcd, etcdkv.New(p.Etcd), "/" + p.name("account") + "/", keys(w.Accounts)}
	return t
}

func (t *etcdTable) sum(ctx context.Context) (sum int64, err error) {
	snapshot, err := t.kv.List(ctx, t.prefix)
	for _, e := range snapshot.Entries {
		n, err := strconv.ParseInt(string(e.Value), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("rival: %s: %w", e.Key, err)
		}
		sum += n
	}
	return sum, err
}

func (t *etcdTable) drop() {
	_, _ = t.client.Delete(context.Background(), t.prefix, clientv3.WithPrefix())
	_ = t.kv.Close()
}

func etcdContender(p *Places, w Work, ours bool, name, note string, how func(*etcdTable) do) measure.Contender {
	return measure.Contender{Name: name, Note: note, Ours: ours, Open: func(context.Context) (*measure.Instance, error) {
		t := newEtcdTable(p, w)
		return &measure.Instance{Do: how(t), Sum: t.sum, Close: t.drop}, nil
	}}
}

func stm(t *etcdTable) do {
	return func(ctx context.Context, _, account int) error {
		key := t.prefix + t.names[account]
		_, err := concurrency.NewSTM(t.client, func(s concurrency.STM) error {
			n, _ := strconv.ParseInt(s.Get(key), 10, 64) // "" is 0
			s.Put(key, strconv.FormatInt(n+1, 10))
			return nil
		}, concurrency.WithAbortContext(ctx))
		return err
	}
}

func update(t *etcdTable) do {
	return func(ctx context.Context, _, account int) error {
		for {
			_, err := cas.Update(ctx, t.kv, t.prefix+t.names[account], func(n *int64) error { *n++; return nil }, cas.UpdateConfig{})
			if !errors.Is(err, cas.ErrContended) {
				return err
			}
		}
	}
}

// etcdEffect is a get and a put, as a lock's holder does them.
func etcdEffect(_ context.Context, p *Places, w Work) (effect, error) {
	t := newEtcdTable(p, w)
	return effect{func(ctx context.Context, account int) error {
		key := t.prefix + t.names[account]
		got, err := t.client.Get(ctx, key)
		if err != nil {
			return err
		}
		var n int64
		if len(got.Kvs) > 0 {
			n, _ = strconv.ParseInt(string(got.Kvs[0].Value), 10, 64)
		}
		_, err = t.client.Put(ctx, key, strconv.FormatInt(n+1, 10))
		return err
	}, t.sum, t.drop}, nil
}

// open loads a shard. There is nothing to seal: each commit is guarded by the claim itself, in the same store.
func (t *etcdTable) open(ctx context.Context, tenure *owner.Tenure) (apply, error) {
	snapshot, err := t.kv.List(ctx, t.prefix)
	if err != nil {
		return nil, err
	}
	balances := map[int]int64{}
	for _, e := range snapshot.Entries {
		id, _ := strconv.Atoi(strings.TrimPrefix(e.Key, t.prefix+"account-"))
		balances[id], _ = strconv.ParseInt(string(e.Value), 10, 64)
	}
	return func(ctx context.Context, batch []*command) error {
		changed := map[int]int64{}
		for _, c := range batch {
			balance, ok := changed[c.Value]
			if !ok {
				balance = balances[c.Value]
			}
			changed[c.Value] = balance + 1
			c.Reply(balance + 1)
		}
		txn := cas.Txn{If: []cas.Cond{tenure.Guard()}}
		for id, balance := range changed {
			txn.Then = append(txn.Then, cas.Put(t.prefix+t.names[id], strconv.AppendInt(nil, balance, 10)))
		}
		_, err := t.kv.Commit(ctx, txn)
		if err == nil {
			maps.Copy(balances, changed)
		}
		return err
	}, nil
}
