package sqlcas

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/cas/sqlcas"
	"github.com/tenure-go/tenure/internal/integration/sqltest"
)

func wantConflict(t *testing.T, err error, seen, current int64) {
	t.Helper()
	conflict, ok := errors.AsType[*sqlcas.ConflictError](err)
	if !ok || conflict.Seen != seen || conflict.Current != current || cas.OutcomeOf(err) != cas.NotApplied {
		t.Errorf("got %v (%s), want a conflict of %d with %d, not applied", err, cas.OutcomeOf(err), seen, current)
	}
}

func wantIs(t *testing.T, err, want error, outcome cas.Outcome) {
	t.Helper()
	if !errors.Is(err, want) || cas.OutcomeOf(err) != outcome {
		t.Errorf("got %v (%s), want %v (%s)", err, cas.OutcomeOf(err), want, outcome)
	}
}

func wantVersion(t *testing.T, got int64, err error, want int64) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("got version %d, %v, want %d", got, err, want)
	}
}

func TestTable(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		x := r.client(t, options{}).direct()
		accounts := r.accounts(t)

		v, err := accounts.update(ctx, x, sqlcas.Key{1}, 1, sqlcas.Set{"balance": 70})
		wantVersion(t, v, err, 2)
		_, err = accounts.update(ctx, x, sqlcas.Key{1}, 1, sqlcas.Set{"balance": 60})
		wantConflict(t, err, 1, 2)
		v, err = accounts.update(ctx, x, sqlcas.Key{1}, 2, sqlcas.Set{"balance": 70}) // as it is, but for the version
		wantVersion(t, v, err, 3)
		v, err = accounts.update(ctx, x, sqlcas.Key{1}, 3, nil)
		wantVersion(t, v, err, 4)
		r.wantBalance(t, 1, 70)

		_, err = accounts.update(ctx, x, sqlcas.Key{9}, 1, sqlcas.Set{"balance": 1})
		wantIs(t, err, sqlcas.ErrMissing, cas.NotApplied)
		wantIs(t, accounts.delete(ctx, x, sqlcas.Key{9}, 1), sqlcas.ErrMissing, cas.NotApplied)

		v, err = accounts.insert(ctx, x, sqlcas.Key{4}, sqlcas.Set{"balance": 5})
		wantVersion(t, v, err, 1)
		_, err = accounts.insert(ctx, x, sqlcas.Key{4}, sqlcas.Set{"balance": 6})
		wantIs(t, err, sqlcas.ErrExists, cas.NotApplied)
		r.wantBalance(t, 4, 5)

		wantConflict(t, accounts.delete(ctx, x, sqlcas.Key{4}, 7), 7, 1)
		if err := accounts.delete(ctx, x, sqlcas.Key{4}, 1); err != nil {
			t.Error(err)
		}
		if n := r.number(t, "SELECT COUNT(*) FROM {account}"); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
	})
}

// A zero that comes from a forgotten read is a version like any other.
func TestTableVersionZeroIsNotUnguarded(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		x := r.client(t, options{}).direct()
		accounts := r.accounts(t)
		_, err := accounts.update(ctx, x, sqlcas.Key{1}, 0, sqlcas.Set{"balance": 0})
		wantConflict(t, err, 0, 1)
		wantConflict(t, accounts.delete(ctx, x, sqlcas.Key{1}, 0), 0, 1)
		r.wantBalance(t, 1, 100)

		r.exec(t, "UPDATE {account} SET version = 0 WHERE id = 1")
		v, err := accounts.update(ctx, x, sqlcas.Key{1}, 0, sqlcas.Set{"balance": 1})
		wantVersion(t, v, err, 1)
	})
}

// A refused insert of Postgres would otherwise have failed the whole transaction.
func TestTableInsertThatExistsLeavesTheTransactionAlive(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		accounts := r.accounts(t)
		err := r.client(t, options{}).retry(ctx, func(x tx) error {
			_, err := accounts.insert(ctx, x, sqlcas.Key{1}, sqlcas.Set{"balance": 0})
			wantIs(t, err, sqlcas.ErrExists, cas.NotApplied)
			return x.add(ctx, 1, 1)
		})
		if err != nil {
			t.Error(err)
		}
		r.wantBalance(t, 1, 101)
	})
}

// Another unique column's violation is no ErrExists: the key is free.
func TestTableInsertAnotherUniqueColumn(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.exec(t, "CREATE TABLE {account}_more (id INTEGER NOT NULL PRIMARY KEY, mail VARCHAR(9) NOT NULL UNIQUE, v INTEGER NOT NULL)")
		r.exec(t, "INSERT INTO {account}_more VALUES (1, 'a', 1)")
		more := r.versioned(t, r.table+"_more", "v", "id")
		_, err := more.insert(t.Context(), r.client(t, options{}).direct(), sqlcas.Key{2}, sqlcas.Set{"mail": "a"})
		if err == nil || errors.Is(err, sqlcas.ErrExists) || errors.Is(err, sqlcas.ErrMissing) || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v (%s), want the constraint's error, not applied", err, cas.OutcomeOf(err))
		}
	})
}

// Names may be anything, and are no more than names.
func TestTableQuotesNames(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		q := `"`
		if r.Dialect == sqlcas.MySQL {
			q = "`"
		}
		column := "a" + q + "b? --" // what is in it must not end it
		quoted := q + "a" + q + q + "b? --" + q
		stmt := fmt.Sprintf("CREATE TABLE %s_more (%sorder%s INTEGER NOT NULL, part INTEGER NOT NULL, %s INTEGER, %sVersion%s INTEGER NOT NULL, PRIMARY KEY (%sorder%s, part))",
			r.table, q, q, quoted, q, q, q, q)
		if _, err := r.db.ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
		x := r.client(t, options{}).direct()
		more := r.versioned(t, r.table+"_more", "Version", "order", "part")
		v, err := more.insert(t.Context(), x, sqlcas.Key{1, 2}, sqlcas.Set{column: 3})
		wantVersion(t, v, err, 1)
		v, err = more.update(t.Context(), x, sqlcas.Key{1, 2}, 1, sqlcas.Set{column: 4})
		wantVersion(t, v, err, 2)
		_, err = more.update(t.Context(), x, sqlcas.Key{1, 2}, 2, sqlcas.Set{"balance = 1 --": 4})
		if err == nil {
			t.Error("a column that is not there: got nil, want an error")
		}
	})
}

func TestTableKeyThatIsNone(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		byBalance := r.versioned(t, r.table, "version", "balance") // 100 in all three
		err := r.client(t, options{}).retry(ctx, func(x tx) error {
			_, err := byBalance.update(ctx, x, sqlcas.Key{100}, 1, nil)
			return err
		})
		if err == nil || cas.OutcomeOf(err) != cas.NotApplied {
			t.Errorf("got %v (%s), want an error, not applied", err, cas.OutcomeOf(err))
		}
		if n := r.number(t, "SELECT SUM(version) FROM {account}"); n != 3 {
			t.Errorf("sum of versions: got %d, want 3", n)
		}
	})
}

// Nobody's update is lost among many who read, think and write.
func TestTableCountersLoseNothing(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		const workers, each = 8, 25
		ctx := t.Context()
		x := r.client(t, options{}).direct()
		accounts := r.accounts(t)
		var seen sync.Map
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for done := 0; done < each; {
					n, err := x.number(ctx, "SELECT balance * 1000000 + version FROM {account} WHERE id = 1")
					if err != nil {
						t.Error(err)
						return
					}
					v, err := accounts.update(ctx, x, sqlcas.Key{1}, n%1000000, sqlcas.Set{"balance": n/1000000 + 1})
					_, conflict := errors.AsType[*sqlcas.ConflictError](err)
					switch {
					case err == nil:
						if _, twice := seen.LoadOrStore(v, true); twice {
							t.Errorf("version %d was given to two", v)
						}
						done++
					case !conflict:
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		r.wantBalance(t, 1, 100+workers*each)
		if got := r.number(t, "SELECT version FROM {account} WHERE id = 1"); got != 1+workers*each {
			t.Errorf("version: got %d, want %d", got, 1+workers*each)
		}
	})
}

// A trigger may have its own idea of the version: what is returned is what is stored.
func TestPostgres_TableReturnsWhatTheTriggerMadeOfTheVersion(t *testing.T) {
	for _, viaPgx := range []bool{false, true} {
		r := newRig(t, sqltest.Postgres(t), viaPgx)
		r.exec(t, "CREATE FUNCTION {account}_bump() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.version = OLD.version + 10; RETURN NEW; END'")
		t.Cleanup(func() { _, _ = r.db.ExecContext(context.Background(), r.query("DROP FUNCTION {account}_bump CASCADE")) })
		r.exec(t, "CREATE TRIGGER bump BEFORE UPDATE ON {account} FOR EACH ROW EXECUTE FUNCTION {account}_bump()")
		v, err := r.accounts(t).update(t.Context(), r.client(t, options{}).direct(), sqlcas.Key{1}, 1, sqlcas.Set{"balance": 1})
		wantVersion(t, v, err, 11)
	}
}

// MySQL counts the rows that are other than before, or by the DSN those that were found.
func TestMariaDB_TableWithEitherRowCount(t *testing.T) {
	r := newRig(t, sqltest.MariaDB(t), false)
	for _, found := range []bool{false, true} {
		c, err := mysql.ParseDSN(os.Getenv("TENURE_TEST_MARIADB"))
		if err != nil {
			t.Fatal(err)
		}
		c.ClientFoundRows = found
		connector, err := mysql.NewConnector(c)
		if err != nil {
			t.Fatal(err)
		}
		pool := sql.OpenDB(connector)
		t.Cleanup(func() { _ = pool.Close() })
		x, accounts := tx{r, pool, nil}, r.accounts(t)
		seen := r.number(t, "SELECT version FROM {account} WHERE id = 1")
		v, err := accounts.update(t.Context(), x, sqlcas.Key{1}, seen, sqlcas.Set{"balance": 100})
		wantVersion(t, v, err, seen+1)
		_, err = accounts.update(t.Context(), x, sqlcas.Key{1}, seen, sqlcas.Set{"balance": 100})
		wantConflict(t, err, seen, seen+1)
		db, err := sqlcas.New(pool, sqlcas.MySQL, sqlcas.Config{Table: r.table + "_receipt"})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		ran := 0
		for range 3 { // a duplicate is recognised as one, too
			if err := db.Once(t.Context(), fmt.Sprint("op-", found), func(*sql.Tx) error { ran++; return nil }); err != nil {
				t.Error(err)
			}
		}
		if ran != 1 {
			t.Errorf("found rows %t: the function ran %d times, want once", found, ran)
		}
	}
}

// In a snapshot the version seen is still there, and the statement looks at the row as it is now.
func TestMariaDB_TableConflictTellsTheVersionThatIsThere(t *testing.T) {
	r := newRig(t, sqltest.MariaDB(t), false)
	c := r.client(t, options{level: sql.LevelRepeatableRead})
	ctx := t.Context()
	var got error
	_ = c.retry(ctx, func(x tx) error {
		_ = x.exec(ctx, "SET SESSION innodb_snapshot_isolation = OFF") // as MySQL is; not known before MariaDB 10.6.18
		seen, err := x.number(ctx, "SELECT version FROM {account} WHERE id = 1")
		if err != nil {
			return err
		}
		r.exec(t, "UPDATE {account} SET version = version + 1 WHERE id = 1")
		_, got = r.accounts(t).update(ctx, x, sqlcas.Key{1}, seen, sqlcas.Set{"balance": 1})
		return got
	})
	wantConflict(t, got, 1, 2)
}
