package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/question"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/rival"
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

// hotLoad and its like are what is asked, at which pace, and of whom: for the asking, and for the plan of how long that takes.
func (s *session) hotLoad() load {
	w := rival.Work{Clients: clients, Accounts: 1, Shards: 1}
	on, base, durability := s.database(w)
	return load{question.Load{
		ID: "hot", Question: "Everybody wants the same account. How many changes a second, and how long does one take?",
		Work: w, Durability: durability, Base: base,
	}, s.pace(80*time.Millisecond, 300*time.Millisecond, 800*time.Millisecond), on}
}

// bars is a table of the ratios that the project has set itself. There is no verdict on a quick run: its turns are shorter than some
// contenders take for one request.
func (s *session) bars(id, title, conditions string, results []measure.Result, bars []question.Bar) *report.Table {
	t := question.Bars(id, title, conditions, results, bars)
	if s.quick {
		t.Conditions += " A quick run: too short for a verdict."
		t.Columns = slices.DeleteFunc(t.Columns, func(c report.Column) bool { return c.Key == "met" })
		for _, row := range t.Rows {
			delete(row.Texts, "met")
		}
	}
	return t
}

func (s *session) hot(ctx context.Context) ([]*report.Table, error) {
	t, results := s.hotLoad().ask(ctx)
	bars := s.bars("hot-bars", "One hot account: what the project has set itself", "Ratios of rates in the table before, round by round.", results, []question.Bar{
		{Over: coalesced, Under: "SELECT FOR UPDATE", Want: 20},
		{Over: coalesced, Under: "plain UPDATE", Want: 10},
		{Over: each, Under: "SELECT FOR UPDATE", Want: 5},
		{Over: coalesced, Under: "etcd Mutex, a session each", Want: 200},
		{Over: coalesced, Under: "Redis SET NX + Lua", Want: 20},
		{Over: coalesced, Under: "plain UPDATE, pipelined", Want: 1},
	})
	return []*report.Table{t, bars}, ctx.Err()
}

func (s *session) zipfLoad() load {
	w := rival.Work{Clients: clients, Accounts: 10_000, Shards: s.shards}
	on, base, durability := s.database(w)
	counts := []int{16, 64} // the more queues, the smaller are the batches
	if s.quick {
		counts = nil
	}
	for _, shards := range counts {
		many := w
		many.Shards = shards
		other, _, _ := s.database(many)
		for _, c := range question.Pick(other, coalesced) {
			c.Name = fmt.Sprintf("%s, %d shards", c.Name, shards)
			on.Contenders = append(on.Contenders, c)
		}
	}
	return load{question.Load{
		ID: "zipf", Question: "10,000 accounts, some much busier than others (Zipf 0.99): how many changes a second?",
		Work: w, Skew: 0.99, Durability: durability, Base: base,
	}, s.pace(80*time.Millisecond, 300*time.Millisecond, 800*time.Millisecond), on}
}

func (s *session) zipf(ctx context.Context) ([]*report.Table, error) {
	t, results := s.zipfLoad().ask(ctx)
	bars := s.bars("zipf-bars", "Zipf over 10,000 accounts: what the project has set itself", "Ratios of rates in the table before, round by round.", results, []question.Bar{
		{Over: coalesced, Under: "SELECT FOR UPDATE", Want: 5},
		{Over: each, Under: "SELECT FOR UPDATE", Want: 5},
	})
	return []*report.Table{t, bars}, ctx.Err()
}

// unsyncedLoad has nobody to ask unless the Postgres was started for this.
func (s *session) unsyncedLoad() load {
	w := rival.Work{Clients: clients, Accounts: 1, Shards: 1}
	if !s.addresses.Ours || s.places.Postgres == nil {
		return load{}
	}
	on, base, _ := s.database(w)
	on.Contenders = question.Pick(on, "plain UPDATE", "plain UPDATE, pipelined", "SELECT FOR UPDATE", "CAS by version", "advisory lock", singly, each, coalesced)
	return load{question.Load{
		ID: "unsynced", Question: "One hot account, and nothing is synced to disk: who wins when a commit is cheap?",
		Work: w, Durability: "Postgres with fsync off: what was acknowledged is lost when the machine fails", Base: base,
	}, s.pace(80*time.Millisecond, 300*time.Millisecond, 800*time.Millisecond), on}
}

// unsynced turns fsync off, which is done only to a server that was started for this. It is where a lock costs least beside the
// rest, and so where an owner has least to win.
func (s *session) unsynced(ctx context.Context) ([]*report.Table, error) {
	l := s.unsyncedLoad()
	if len(l.on.Contenders) == 0 {
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
	t, results := l.ask(ctx)
	bars := s.bars("unsynced-bars", "One hot account, fsync off: what the project has set itself", "Ratios of rates in the table before, round by round.", results, []question.Bar{
		{Over: coalesced, Under: "plain UPDATE, pipelined", Want: 1},
	})
	return []*report.Table{t, bars}, ctx.Err()
}

func (s *session) aloneLoad() load {
	w := rival.Work{Clients: 1, Accounts: 1, Shards: 1}
	on, base, durability := s.database(w)
	return load{question.Load{
		ID: "alone", Question: "Nobody else wants the account: what does one change cost a client that is alone?",
		Work: w, Durability: durability, Base: base,
	}, s.pace(40*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond), on}
}

func (s *session) alone(ctx context.Context) ([]*report.Table, error) {
	t, _ := s.aloneLoad().ask(ctx)
	t.Plot = "p50"
	return []*report.Table{t}, ctx.Err()
}

func (s *session) etcdLoad() load {
	w := rival.Work{Clients: clients, Accounts: 1, Shards: 1}
	return load{question.Load{
		ID: "etcd", Question: "The balance is a key of etcd, and everybody wants it: how many changes a second?",
		Work: w, Durability: "etcd, every commit synced to disk", Base: "STM",
	}, s.pace(80*time.Millisecond, 300*time.Millisecond, 800*time.Millisecond), rival.OnEtcd(s.places, w)}
}

func (s *session) etcd(ctx context.Context) ([]*report.Table, error) {
	t, _ := s.etcdLoad().ask(ctx)
	return []*report.Table{t}, ctx.Err()
}

func (s *session) lostLoad() (p question.Pace, mistakes, proper []measure.Contender, durability string) {
	w := rival.Work{Clients: clients, Accounts: 1, Shards: 1}
	on, _, durability := s.database(w)
	mistakes, proper = rival.ReadThenWrite(s.places, w)
	proper = append(proper, question.Pick(on, "SELECT FOR UPDATE", "BEGIN IMMEDIATE", "CAS by version", "SERIALIZABLE, retried",
		singly, each, coalesced)...)
	return s.pace(80*time.Millisecond, 500*time.Millisecond, time.Second), mistakes, proper, durability
}

func (s *session) lost(ctx context.Context) ([]*report.Table, error) {
	p, mistakes, proper, durability := s.lostLoad()
	return []*report.Table{question.Lost(ctx, p, clients, durability, mistakes, proper)}, ctx.Err()
}
