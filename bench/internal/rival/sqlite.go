package rival

import (
	"context"
	"database/sql"
	"fmt"
	"maps"

	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/owner"
	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/writer"
)

// OnSQLite is every contender whose effect is an UPDATE on SQLite (WAL, synchronous = FULL).
func OnSQLite(p *Places, w Work) On {
	cs := []measure.Contender{
		liteContender(p, w, "plain UPDATE", "balance = balance + 1", func(t *liteTable) do {
			return func(ctx context.Context, _, account int) error { return t.addOne(ctx, account) }
		}),
		liteContender(p, w, "BEGIN IMMEDIATE", "SQLite's only lock: select, update, commit", immediate),
		liteContender(p, w, "CAS by version", "select, update where version = the one read, again at once on 0 rows", liteByVersion),
	}
	cs = append(cs, lockContenders(p, w, liteEffect)...)
	return On{"SQLite", append(cs, tenureOnSQLite(p, w)...)}
}

type liteTable struct {
	db   *sql.DB
	name string
}

func newLiteTable(ctx context.Context, p *Places, accounts int) (*liteTable, error) {
	t := &liteTable{p.SQLite, p.name("account")}
	_, err := t.db.ExecContext(ctx, fmt.Sprintf(`DROP TABLE IF EXISTS %[1]s;
		CREATE TABLE %[1]s (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, version INTEGER NOT NULL);
		INSERT INTO %[1]s WITH RECURSIVE n (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id + 1 < %[2]d) SELECT id, 0, 0 FROM n`, t.name, accounts))
	if err != nil {
		return nil, fmt.Errorf("rival: create table: %w", err)
	}
	return t, nil
}

func (t *liteTable) sum(ctx context.Context) (n int64, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT sum(balance) FROM "+t.name).Scan(&n)
	return n, err
}

func (t *liteTable) drop() {
	_, _ = t.db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+t.name)
}

func (t *liteTable) addOne(ctx context.Context, account int) error {
	_, err := t.db.ExecContext(ctx, "UPDATE "+t.name+" SET balance = balance + 1 WHERE id = ?", account)
	return err
}

func liteEffect(ctx context.Context, p *Places, w Work) (effect, error) {
	t, err := newLiteTable(ctx, p, w.Accounts)
	if err != nil {
		return effect{}, err
	}
	return effect{t.addOne, t.sum, t.drop}, nil
}

func liteContender(p *Places, w Work, name, note string, how func(*liteTable) do) measure.Contender {
	return measure.Contender{Name: name, Note: note, Open: func(ctx context.Context) (*measure.Instance, error) {
		t, err := newLiteTable(ctx, p, w.Accounts)
		if err != nil {
			return nil, err
		}
		return &measure.Instance{Do: how(t), Sum: t.sum, Close: t.drop}, nil
	}}
}

// immediate relies on _txlock=immediate in the DSN.
func immediate(t *liteTable) do {
	return func(ctx context.Context, _, account int) error {
		tx, err := t.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		var balance int64
		if err := tx.QueryRowContext(ctx, "SELECT balance FROM "+t.name+" WHERE id = ?", account).Scan(&balance); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE "+t.name+" SET balance = ? WHERE id = ?", balance+1, account); err != nil {
			return err
		}
		return tx.Commit()
	}
}

func liteByVersion(t *liteTable) do {
	return func(ctx context.Context, _, account int) error {
		for {
			var balance, version int64
			if err := t.db.QueryRowContext(ctx, "SELECT balance, version FROM "+t.name+" WHERE id = ?", account).Scan(&balance, &version); err != nil {
				return err
			}
			r, err := t.db.ExecContext(ctx, "UPDATE "+t.name+" SET balance = ?, version = version + 1 WHERE id = ? AND version = ?", balance+1, account, version)
			if err != nil {
				return err
			}
			if n, err := r.RowsAffected(); err != nil || n == 1 {
				return err
			}
		}
	}
}

func tenureOnSQLite(p *Places, w Work) []measure.Contender {
	if p.Etcd == nil {
		return nil
	}
	form := func(name, note string, c writer.Config, form func(*liteShard) apply) measure.Contender {
		return ownedContender(name, note, func(ctx context.Context) (*owned, func(context.Context) (int64, error), func(), error) {
			t, err := newLiteTable(ctx, p, w.Accounts)
			if err != nil {
				return nil, nil, nil, err
			}
			fences, err := fence.NewSQL(p.SQLite, fence.SQLite, fence.SQLConfig{Table: p.name("fence")})
			if err != nil {
				return nil, nil, nil, err
			}
			if err := fences.Install(ctx); err != nil {
				return nil, nil, nil, err
			}
			names := keys(w.Accounts)
			n, err := newOwned(ctx, p, w, func(ctx context.Context, tenure *owner.Tenure) (apply, error) {
				s := &liteShard{fences, t, tenure, map[int]int64{}}
				return form(s), s.load(ctx, names)
			}, c)
			return n, t.sum, t.drop, err
		})
	}
	return []measure.Contender{
		form("Tenure, owner singly", "a guarded transaction for each request", writer.Config{MaxBatch: 1}, (*liteShard).each),
		form("Tenure, writer, per command", "group commit, one UPDATE for each request", writer.Config{}, (*liteShard).each),
		form("Tenure, writer, coalesced", "group commit, balances in memory, one UPDATE for an account and batch", writer.Config{}, (*liteShard).coalesced),
	}
}

type liteShard struct {
	fences   *fence.SQL
	table    *liteTable
	tenure   *owner.Tenure
	balances map[int]int64
}

func (s *liteShard) load(ctx context.Context, names []string) error {
	if err := s.fences.Seal(ctx, s.tenure.Token()); err != nil {
		return err
	}
	rows, err := s.table.db.QueryContext(ctx, "SELECT id, balance FROM "+s.table.name)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		var balance int64
		if err := rows.Scan(&id, &balance); err != nil {
			return err
		}
		if s.tenure.Owns(names[id]) {
			s.balances[id] = balance
		}
	}
	return rows.Err()
}

func (s *liteShard) each() apply {
	return func(ctx context.Context, batch []*command) error {
		return s.fences.Tx(ctx, s.tenure.Token(), func(tx *sql.Tx) error {
			for _, c := range batch {
				if _, err := tx.ExecContext(ctx, "UPDATE "+s.table.name+" SET balance = balance + 1 WHERE id = ?", c.Value); err != nil {
					return err
				}
				c.Reply(1)
			}
			return nil
		})
	}
}

func (s *liteShard) coalesced() apply {
	return func(ctx context.Context, batch []*command) error {
		changed := map[int]int64{}
		for _, c := range batch {
			balance, ok := changed[c.Value]
			if !ok {
				balance = s.balances[c.Value]
			}
			changed[c.Value] = balance + 1
			c.Reply(balance + 1)
		}
		err := s.fences.Tx(ctx, s.tenure.Token(), func(tx *sql.Tx) error {
			for id, balance := range changed {
				if _, err := tx.ExecContext(ctx, "UPDATE "+s.table.name+" SET balance = ? WHERE id = ?", balance, id); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			maps.Copy(s.balances, changed)
		}
		return err
	}
}
