package compare_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/tenure-go/tenure/bench/compare"
)

const file = "TENURE_COMPARE_TEST_FILE"

// TestMain is also the main of the workers that TestRun_Faults has started.
func TestMain(m *testing.M) {
	if f := os.Getenv(file); f != "" && os.Getenv("TENURE_COMPARE_WORKER") != "" {
		cs, hangUp := contenders(f)
		defer hangUp()
		if err := compare.Run(context.Background(), os.Stderr, faulty, cs...); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func count(name string, by int64) compare.Contender {
	var n atomic.Int64
	return compare.Contender{
		Name: name,
		Do:   func(_ context.Context, _ string, amount int64) error { n.Add(by * amount); return nil },
		Sum:  func(context.Context) (int64, error) { return n.Load(), nil },
	}
}

func TestRun_PrintsWhatWasLostAndDoubled(t *testing.T) {
	var b strings.Builder
	err := compare.Run(t.Context(), &b, compare.Config{Clients: 2, Accounts: 10, Skew: 1.1, For: 100 * time.Millisecond},
		count("right", 1), count("loses", 0), count("doubles", 2))
	if err != nil {
		t.Fatal(err)
	}
	for name, harmed := range map[string][2]bool{"right": {false, false}, "loses": {true, false}, "doubles": {false, true}} {
		var cells []string
		for line := range strings.Lines(b.String()) {
			if fields := strings.Fields(line); len(fields) == 10 && fields[0] == name {
				cells = fields
			}
		}
		if cells == nil || cells[5] == "0" || (cells[6] != "0") != harmed[0] || (cells[7] != "0") != harmed[1] {
			t.Errorf("%s: got %q, want harm %v in\n%s", name, cells, harmed, &b)
		}
	}
}

// What is lost is not known where there is no sum: that is no 0.
func TestRun_WithoutASumIsAnError(t *testing.T) {
	short := compare.Config{For: 100 * time.Millisecond}
	for name, failsAt := range map[string]int{"at the start": 1, "in the end": 2} {
		blind, sums := count("blind", 1), 0
		blind.Sum = func(context.Context) (int64, error) {
			if sums++; sums == failsAt {
				return 0, errors.New("no such table")
			}
			return 0, nil
		}
		var b strings.Builder
		err := compare.Run(t.Context(), &b, short, count("right", 1), blind)
		if err == nil || err.Error() != "compare: blind: sum: no such table" {
			t.Errorf("%s: got %v, want the error of Sum", name, err)
		}
		if got := cells(b.String(), "blind"); len(got) != 10 || got[6] != "–" || got[7] != "–" {
			t.Errorf("%s: got %q, want – for lost and doubled in\n%s", name, got, &b)
		}
	}
}

func TestRun_EndedEarlyIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := count("right", 1)
	c.Do = func(context.Context, string, int64) error { cancel(); return nil }
	var b strings.Builder
	if err := compare.Run(ctx, &b, compare.Config{For: time.Hour}, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	if got := cells(b.String(), "right"); len(got) != 10 || got[6] != "–" || got[7] != "–" {
		t.Errorf("got %q, want – for lost and doubled in\n%s", got, &b)
	}
}

// cells are the words of a row.
func cells(table, name string) []string {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == name {
			return fields
		}
	}
	return nil
}

func TestRun_RefusesWhatMakesNoSense(t *testing.T) {
	for name, err := range map[string]error{
		"no contender": compare.Run(t.Context(), nil, compare.Config{}),
		"same name":    compare.Run(t.Context(), nil, compare.Config{}, count("a", 1), count("a", 1)),
		"no Do":        compare.Run(t.Context(), nil, compare.Config{}, compare.Contender{Name: "a"}),
		"config":       compare.Run(t.Context(), nil, compare.Config{Clients: -1, Skew: -1, For: 1}, count("a", 1)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "compare: ") {
			t.Errorf("%s: got %v, want an error of package compare", name, err)
		}
	}
}

var faulty = compare.Config{Clients: 3, Accounts: 1, For: 4 * time.Second, Faults: true}

// contenders write to a file that all workers share: one adds, one reads and then writes what it worked out.
func contenders(file string) ([]compare.Contender, func()) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1)
	sum := func(id string) func(context.Context) (int64, error) {
		return func(ctx context.Context) (n int64, err error) {
			err = db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = ?", id).Scan(&n)
			return n, err
		}
	}
	var calls atomic.Int64
	return []compare.Contender{
		{Name: "adds", Sum: sum("adds"), Do: func(ctx context.Context, _ string, n int64) error {
			if calls.Add(1)%100 == 1 {
				return errors.New("refused, as every now and then")
			}
			_, err := db.ExecContext(ctx, "UPDATE account SET balance = balance + ? WHERE id = 'adds'", n)
			return err
		}},
		{Name: "overwrites", Sum: sum("overwrites"), Do: func(ctx context.Context, _ string, n int64) error {
			balance, err := sum("overwrites")(ctx)
			if err != nil {
				return err
			}
			_, err = db.ExecContext(ctx, "UPDATE account SET balance = ? WHERE id = 'overwrites'", balance+n)
			return err
		}},
	}, func() { _ = db.Close() }
}

// Processes are paused and killed, what they had under way counts as uncertain, and what is lost is seen.
func TestRun_Faults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 8 s")
	}
	path := filepath.Join(t.TempDir(), "accounts.db")
	t.Setenv(file, path)
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE account (id text PRIMARY KEY, balance integer NOT NULL); INSERT INTO account VALUES ('adds', 0), ('overwrites', 0)"); err != nil {
		t.Fatal(err)
	}
	cs, hangUp := contenders(path)
	defer hangUp()
	var b strings.Builder
	if err := compare.Run(t.Context(), &b, faulty, cs...); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		fields := strings.Fields(line)
		if len(fields) != 11 || fields[0] != "adds" && fields[0] != "overwrites" {
			continue
		}
		if (fields[6] != "0") != (fields[0] == "overwrites") || fields[7] != "0" || fields[1] == "0" || (fields[9] == "0") != (fields[0] == "overwrites") || fields[10] == "0" {
			t.Errorf("got %q in\n%s", fields, &b)
		}
	}
	if !strings.Contains(b.String(), "adds: first error: refused, as every now and then") {
		t.Errorf("the workers' first error is not printed: %s", &b)
	}
	if !strings.Contains(b.String(), "overwrites") {
		t.Errorf("no table: %s", &b)
	}
}
