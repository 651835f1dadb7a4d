package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-go/tenure/bench/internal/question"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/rival"
	"github.com/tenure-go/tenure/bench/internal/zombie"
)

// database is where balances lie: Postgres if there is one, else SQLite.
func (s *session) database(w rival.Work) (on rival.On, base, durability string) {
	if s.places.Postgres != nil {
		return rival.OnPostgres(s.places, w), "SELECT FOR UPDATE", "Postgres, every commit synced to disk"
	}
	return rival.OnSQLite(s.places, w), "BEGIN IMMEDIATE", "SQLite, every commit synced to disk"
}

const (
	clients   = 64
	coalesced = "Tenure, writer, coalesced"
	each      = "Tenure, writer, per command"
	singly    = "Tenure, owner singly"
)

func (s *session) hot(ctx context.Context) ([]*report.Table, error) {
	w := rival.Work{Clients: clients, Accounts: 1, Shards: 1}
	on, base, durability := s.database(w)
	t, results := question.Load{
		ID: "hot", Question: "Everybody wants the same account. How many changes a second, and how long does one take?",
		Work: w, Durability: durability, Base: base,
	}.Ask(ctx, s.pace(150*time.Millisecond, 800*time.Millisecond), on)
	bars := question.Bars("hot-bars", "One hot account: what the project has set itself", "Ratios of rates in the table before, round by round.", results, []question.Bar{
		{Over: coalesced, Under: "SELECT FOR UPDATE", Want: 20},
		{Over: coalesced, Under: "plain UPDATE", Want: 10},
		{Over: each, Under: "SELECT FOR UPDATE", Want: 5},
		{Over: coalesced, Under: "etcd Mutex, a session each", Want: 200},
		{Over: coalesced, Under: "Redis SET NX + Lua", Want: 20},
		{Over: coalesced, Under: "plain UPDATE, pipelined", Want: 1},
	})
	return []*report.Table{t, bars}, ctx.Err()
}

func (s *session) zipf(ctx context.Context) ([]*report.Table, error) {
	w := rival.Work{Clients: clients, Accounts: 10_000, Shards: s.shards}
	on, base, durability := s.database(w)
	for _, shards := range []int{16, 64} { // the more queues, the smaller are the batches
		many := w
		many.Shards = shards
		other, _, _ := s.database(many)
		for _, c := range question.Pick(other, coalesced) {
			c.Name = fmt.Sprintf("%s, %d shards", c.Name, shards)
			on.Contenders = append(on.Contenders, c)
		}
	}
	t, results := question.Load{
		ID: "zipf", Question: "10,000 accounts, some much busier than others (Zipf 0.99): how many changes a second?",
		Work: w, Skew: 0.99, Durability: durability, Base: base,
	}.Ask(ctx, s.pace(150*time.Millisecond, 800*time.Millisecond), on)
	bars := question.Bars("zipf-bars", "Zipf over 10,000 accounts: what the project has set itself", "Ratios of rates in the table before, round by round.", results, []question.Bar{
		{Over: coalesced, Under: "SELECT FOR UPDATE", Want: 5},
		{Over: each, Under: "SELECT FOR UPDATE", Want: 5},
	})
	return []*report.Table{t, bars}, ctx.Err()
}

// unsynced turns fsync off, which is done only to a server that was started for this. It is where a lock costs least beside the
// rest, and so where an owner has least to win.
func (s *session) unsynced(ctx context.Context) ([]*report.Table, error) {
	if !s.addresses.Ours || s.places.Postgres == nil {
		return nil, nil
	}
	fsync := func(value string) error {
		// Not under ctx: it is to be put back when that has ended, too.
		for _, statement := range []string{"ALTER SYSTEM SET fsync = " + value, "SELECT pg_reload_conf()"} {
			if _, err := s.places.Postgres.Exec(context.Background(), statement); err != nil {
				return fmt.Errorf("fsync %s: %w", value, err)
			}
		}
		return nil
	}
	if err := fsync("off"); err != nil {
		return nil, err
	}
	defer func() { _ = fsync("on") }()
	w := rival.Work{Clients: clients, Accounts: 1, Shards: 1}
	on, base, _ := s.database(w)
	on.Contenders = question.Pick(on, "plain UPDATE", "plain UPDATE, pipelined", "SELECT FOR UPDATE", "CAS by version", "advisory lock", singly, each, coalesced)
	t, results := question.Load{
		ID: "unsynced", Question: "One hot account, and nothing is synced to disk: who wins when a commit is cheap?",
		Work: w, Durability: "Postgres with fsync off: what was acknowledged is lost when the machine fails", Base: base,
	}.Ask(ctx, s.pace(150*time.Millisecond, 800*time.Millisecond), on)
	bars := question.Bars("unsynced-bars", "One hot account, fsync off: what the project has set itself", "Ratios of rates in the table before, round by round.", results, []question.Bar{
		{Over: coalesced, Under: "plain UPDATE, pipelined", Want: 1},
	})
	return []*report.Table{t, bars}, ctx.Err()
}

func (s *session) alone(ctx context.Context) ([]*report.Table, error) {
	w := rival.Work{Clients: 1, Accounts: 1, Shards: 1}
	on, base, durability := s.database(w)
	t, _ := question.Load{
		ID: "alone", Question: "Nobody else wants the account: what does one change cost a client that is alone?",
		Work: w, Durability: durability, Base: base,
	}.Ask(ctx, s.pace(50*time.Millisecond, 400*time.Millisecond), on)
	t.Plot = "p50"
	return []*report.Table{t}, ctx.Err()
}

func (s *session) etcd(ctx context.Context) ([]*report.Table, error) {
	w := rival.Work{Clients: clients, Accounts: 1, Shards: 1}
	t, _ := question.Load{
		ID: "etcd", Question: "The balance is a key of etcd, and everybody wants it: how many changes a second?",
		Work: w, Durability: "etcd, every commit synced to disk", Base: "STM",
	}.Ask(ctx, s.pace(100*time.Millisecond, 800*time.Millisecond), rival.OnEtcd(s.places, w))
	return []*report.Table{t}, ctx.Err()
}

func (s *session) zombie(ctx context.Context) ([]*report.Table, error) {
	stage, err := zombie.NewStage(ctx, s.dir, s.addresses)
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	durability := "The balance is in SQLite"
	if s.places.Postgres != nil {
		durability = "The balance is in Postgres"
	}
	durability += ", or in etcd where that is said; every commit synced to disk"
	trials, kinds := s.trials, zombie.Kinds(s.addresses)
	if s.quick {
		trials = 1
	}
	tables := []*report.Table{question.Zombie(ctx, stage, kinds, trials, durability, s.progress.tell)}
	if !s.quick {
		tables = append(tables, question.Succession(ctx, stage, kinds, min(trials, 5), durability, s.progress.tell))
	}
	return tables, ctx.Err()
}

func (s *session) lost(ctx context.Context) ([]*report.Table, error) {
	w := rival.Work{Clients: clients, Accounts: 1, Shards: 1}
	on, _, durability := s.database(w)
	mistakes, proper := rival.ReadThenWrite(s.places, w)
	proper = append(proper, question.Pick(on, "SELECT FOR UPDATE", "BEGIN IMMEDIATE", "CAS by version", "SERIALIZABLE, retried",
		singly, each, coalesced)...)
	return []*report.Table{question.Lost(ctx, s.pace(100*time.Millisecond, time.Second), clients, durability, mistakes, proper)}, ctx.Err()
}

func (s *session) placement(context.Context) ([]*report.Table, error) {
	return []*report.Table{question.Placement()}, nil
}

func (s *session) growth(ctx context.Context) ([]*report.Table, error) {
	sizes := []question.Size{{Shards: 1024, Members: 3}, {Shards: 8192, Members: 3}, {Shards: 65536, Members: 3}, {Shards: 1024, Members: 30}, {Shards: 1024, Members: 100}, {Shards: 1024, Members: 300}, {Shards: 1024, Members: 1000}}
	if s.quick {
		sizes = []question.Size{{Shards: 1024, Members: 3}, {Shards: 1024, Members: 30}}
	}
	t, err := question.Growth(ctx, s.places.Etcd, s.places.Run, sizes, s.progress.tell)
	return []*report.Table{t}, err
}

func (s *session) cost(ctx context.Context) ([]*report.Table, error) {
	d := "300ms"
	if s.quick {
		d = "20ms"
	}
	t, err := question.Cost(ctx, d)
	return []*report.Table{t}, err
}
