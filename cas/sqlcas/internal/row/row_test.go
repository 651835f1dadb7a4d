package row

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/internal/dialect"
)

// scripted answers each statement with the next of its answers, and takes note of it.
type scripted struct {
	answers []answer
	sent    []string
	args    []any
}

type answer struct {
	rows []any // of one column
	n    int64
	err  error
}

func (s *scripted) next(stmt string, args []any) answer {
	s.sent, s.args = append(s.sent, stmt), args
	a := answer{}
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	return a
}

func (s *scripted) Exec(_ context.Context, stmt string, args ...any) (int64, error) {
	a := s.next(stmt, args)
	return a.n, a.err
}

func (s *scripted) Query(_ context.Context, stmt string, args []any, each func(func(...any) error) error) error {
	a := s.next(stmt, args)
	for _, v := range a.rows {
		if err := each(func(dest ...any) error {
			switch d := dest[0].(type) {
			case *int64:
				*d = v.(int64)
			case **int64:
				if v, ok := v.(int64); ok {
					*d = &v
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return a.err
}

func mustNew(t *testing.T, d dialect.Dialect, key ...string) *Table {
	t.Helper()
	tab, err := New(d, "app.account", "version", key)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// The statements, word for word, for each database.
func TestStatements(t *testing.T) {
	type sent struct {
		Statements []string
		Args       []any
	}
	ctx := t.Context()
	for d, want := range map[dialect.Dialect][]sent{
		dialect.Postgres: {
			{[]string{`UPDATE "app"."account" SET "a" = $1, "b" = $2, "version" = "version" + 1 WHERE "id" = $3 AND "part" = $4 AND "version" = $5 RETURNING "version"`}, []any{1, 2, "x", 9, int64(4)}},
			{[]string{`DELETE FROM "app"."account" WHERE "id" = $1 AND "part" = $2 AND "version" = $3`}, []any{"x", 9, int64(4)}},
			{[]string{`INSERT INTO "app"."account" ("id", "part", "a", "b", "version") VALUES ($1, $2, $3, $4, 1) ON CONFLICT ("id", "part") DO NOTHING RETURNING "version"`}, []any{"x", 9, 1, 2}},
			{[]string{`DELETE FROM "app"."account" WHERE "id" = $1 AND "part" = $2 AND "version" = $3`, `SELECT "version" FROM "app"."account" WHERE "id" = $1 AND "part" = $2`}, []any{"x", 9}},
		},
		dialect.SQLite: {
			{[]string{`UPDATE "app"."account" SET "a" = ?, "b" = ?, "version" = "version" + 1 WHERE "id" = ? AND "part" = ? AND "version" = ? RETURNING "version"`}, []any{1, 2, "x", 9, int64(4)}},
			{[]string{`DELETE FROM "app"."account" WHERE "id" = ? AND "part" = ? AND "version" = ?`}, []any{"x", 9, int64(4)}},
			{[]string{`INSERT INTO "app"."account" ("id", "part", "a", "b", "version") VALUES (?, ?, ?, ?, 1) ON CONFLICT ("id", "part") DO NOTHING RETURNING "version"`}, []any{"x", 9, 1, 2}},
			{[]string{`DELETE FROM "app"."account" WHERE "id" = ? AND "part" = ? AND "version" = ?`, `SELECT "version" FROM "app"."account" WHERE "id" = ? AND "part" = ?`}, []any{"x", 9}},
		},
		dialect.MySQL: {
			{[]string{"UPDATE `app`.`account` SET `a` = ?, `b` = ?, `version` = `version` + 1 WHERE `id` = ? AND `part` = ? AND `version` = ?"}, []any{1, 2, "x", 9, int64(4)}},
			{[]string{"DELETE FROM `app`.`account` WHERE `id` = ? AND `part` = ? AND `version` = ?"}, []any{"x", 9, int64(4)}},
			{[]string{"INSERT INTO `app`.`account` (`id`, `part`, `a`, `b`, `version`) VALUES (?, ?, ?, ?, 1)"}, []any{"x", 9, 1, 2}},
			{[]string{"DELETE FROM `app`.`account` WHERE `id` = ? AND `part` = ? AND `version` = ?", "SELECT `version` FROM `app`.`account` WHERE `id` = ? AND `part` = ? LOCK IN SHARE MODE"}, []any{"x", 9}},
		},
	} {
		tab := mustNew(t, d, "id", "part")
		key, set := []any{"x", 9}, map[string]any{"b": 2, "a": 1}
		one := answer{rows: []any{int64(5)}, n: 1}
		var got []sent
		for i, run := range []func(Querier) (Result, error){
			func(q Querier) (Result, error) { return tab.Update(ctx, q, key, 4, set) },
			func(q Querier) (Result, error) { return tab.Delete(ctx, q, key, 4) },
			func(q Querier) (Result, error) { return tab.Insert(ctx, q, key, set) },
			func(q Querier) (Result, error) { return tab.Delete(ctx, q, key, 4) },
		} {
			q := &scripted{answers: []answer{one}}
			if i == 3 {
				q.answers = []answer{{}}
			}
			if r, err := run(q); err != nil || (r.Fate == Changed) != (i < 3) {
				t.Errorf("%s: %d: got %+v, %v", d, i, r, err)
			}
			got = append(got, sent{q.sent, q.args})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d, diff)
		}
	}
}

type duplicate struct{ Number int }

func (duplicate) Error() string { return "duplicate" }

func TestResults(t *testing.T) {
	ctx := t.Context()
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		d       dialect.Dialect
		insert  bool
		answers []answer
		want    Result
		err     error
	}{
		"returned":           {dialect.Postgres, false, []answer{{rows: []any{int64(17)}}}, Result{Changed, 17}, nil},
		"counted":            {dialect.MySQL, false, []answer{{n: 1}}, Result{Changed, 5}, nil},
		"missing":            {dialect.Postgres, false, []answer{{}, {}}, Result{Missing, 0}, nil},
		"conflict":           {dialect.Postgres, false, []answer{{}, {rows: []any{int64(9)}}}, Result{Conflict, 9}, nil},
		"failed":             {dialect.Postgres, false, []answer{{err: boom}}, Result{}, boom},
		"failed at the end":  {dialect.Postgres, false, []answer{{rows: []any{int64(5)}, err: boom}}, Result{}, boom},
		"could not explain":  {dialect.MySQL, false, []answer{{}, {err: boom}}, Result{}, boom},
		"several":            {dialect.MySQL, false, []answer{{n: 2}}, Result{}, ErrSeveral},
		"several returned":   {dialect.SQLite, false, []answer{{rows: []any{int64(5), int64(5)}}}, Result{}, ErrSeveral},
		"inserted":           {dialect.MySQL, true, []answer{{n: 1}}, Result{Changed, 1}, nil},
		"inserted, returned": {dialect.SQLite, true, []answer{{rows: []any{int64(1)}}}, Result{Changed, 1}, nil},
		"exists":             {dialect.SQLite, true, []answer{{}, {rows: []any{int64(3)}}}, Result{Exists, 3}, nil},
		"exists on MySQL":    {dialect.MySQL, true, []answer{{err: duplicate{1062}}, {rows: []any{int64(3)}}}, Result{Exists, 3}, nil},
		"another column's":   {dialect.MySQL, true, []answer{{err: duplicate{1062}}, {}}, Result{}, duplicate{1062}},
		"deleted meanwhile":  {dialect.SQLite, true, []answer{{}, {}}, Result{Missing, 0}, nil},
	} {
		tab := mustNew(t, test.d, "id")
		q := &scripted{answers: test.answers}
		var got Result
		var err error
		if test.insert {
			got, err = tab.Insert(ctx, q, []any{1}, nil)
		} else {
			got, err = tab.Update(ctx, q, []any{1}, 4, nil)
		}
		if got != test.want || !errors.Is(err, test.err) || len(q.answers) != 0 {
			t.Errorf("%s: got %+v, %v, want %+v, %v", name, got, err, test.want, test.err)
		}
	}
	_, err := mustNew(t, dialect.Postgres, "id").Update(ctx, &scripted{answers: []answer{{}, {rows: []any{nil}}}}, []any{1}, 4, nil)
	if err == nil {
		t.Error("a version that is NULL: got nil, want an error")
	}
}

// What can't be right is not sent.
func TestBadArguments(t *testing.T) {
	tab := mustNew(t, dialect.Postgres, "id")
	q := &scripted{}
	ctx := t.Context()
	for i, err := range []error{
		errOf(tab.Update(ctx, q, nil, 1, nil)),
		errOf(tab.Update(ctx, q, []any{1, 2}, 1, nil)),
		errOf(tab.Update(ctx, q, []any{1}, -1, nil)),
		errOf(tab.Update(ctx, q, []any{1}, math.MaxInt64, nil)),
		errOf(tab.Update(ctx, q, []any{1}, 1, map[string]any{"version": 1})),
		errOf(tab.Update(ctx, q, []any{1}, 1, map[string]any{"Version": 1})),
		errOf(tab.Update(ctx, q, []any{1}, 1, map[string]any{"id": 1})),
		errOf(tab.Update(ctx, q, []any{1}, 1, map[string]any{"": 1})),
		errOf(tab.Delete(ctx, q, nil, 1)),
		errOf(tab.Delete(ctx, q, []any{1}, -1)),
		errOf(tab.Insert(ctx, q, nil, nil)),
		errOf(tab.Insert(ctx, q, []any{1}, map[string]any{"version": 1})),
	} {
		if !errors.Is(err, ErrInput) {
			t.Errorf("%d: got %v, want ErrInput", i, err)
		}
	}
	if len(q.sent) > 0 {
		t.Errorf("sent %q", q.sent)
	}
	for i, make := range []func() (*Table, error){
		func() (*Table, error) { return New(0, "t", "v", []string{"id"}) },
		func() (*Table, error) { return New(dialect.SQLite, "", "v", []string{"id"}) },
		func() (*Table, error) { return New(dialect.SQLite, "a.b.c", "v", []string{"id"}) },
		func() (*Table, error) { return New(dialect.SQLite, "t", "", []string{"id"}) },
		func() (*Table, error) { return New(dialect.SQLite, "t", "v", nil) },
		func() (*Table, error) { return New(dialect.SQLite, "t", "v", []string{"id", "id"}) },
		func() (*Table, error) { return New(dialect.SQLite, "t", "v", []string{"v"}) },
	} {
		if tab, err := make(); tab != nil || err == nil {
			t.Errorf("%d: got %v, %v, want an error", i, tab, err)
		}
	}
}

func errOf(r Result, err error) error {
	if err == nil {
		return fmt.Errorf("got %+v", r)
	}
	return err
}
