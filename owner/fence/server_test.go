package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/cas"
	"github.com/tenure-go/tenure/owner/fence"
)

// mysqlWith is a server that answers the question for its variables, and nothing else.
type mysqlWith [][2]string

func (m mysqlWith) Connect(context.Context) (driver.Conn, error) { return mysqlConn{m}, nil }
func (m mysqlWith) Driver() driver.Driver                        { return nil }

type mysqlConn struct{ vars mysqlWith }

func (c mysqlConn) Prepare(string) (driver.Stmt, error) { return nil, errNowhere }
func (c mysqlConn) Begin() (driver.Tx, error)           { return nil, errNowhere }
func (c mysqlConn) Close() error                        { return nil }

func (c mysqlConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if !strings.HasPrefix(query, "SHOW GLOBAL VARIABLES") {
		return nil, errNowhere
	}
	return &mysqlRows{left: c.vars}, nil
}

type mysqlRows struct{ left mysqlWith }

func (r *mysqlRows) Columns() []string { return []string{"Variable_name", "Value"} }
func (r *mysqlRows) Close() error      { return nil }

func (r *mysqlRows) Next(dest []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	dest[0], dest[1] = r.left[0][0], r.left[0][1]
	r.left = r.left[1:]
	return nil
}

func TestServersOnWhichNoFenceWorksAreRefused(t *testing.T) {
	const several, statements = "one of several primaries", "binlog_format is STATEMENT"
	for name, test := range map[string]struct {
		vars    mysqlWith
		refused string // for this; "": not at all
	}{
		"logs rows":                {mysqlWith{{"log_bin", "ON"}, {"binlog_format", "ROW"}}, ""},
		"mixed log":                {mysqlWith{{"log_bin", "ON"}, {"binlog_format", "MIXED"}}, ""},
		"no log":                   {mysqlWith{{"log_bin", "OFF"}, {"binlog_format", "STATEMENT"}}, ""},
		"logs statements":          {mysqlWith{{"binlog_format", "STATEMENT"}, {"log_bin", "ON"}}, statements},
		"MySQL":                    {nil, ""},
		"MariaDB":                  {mysqlWith{{"idle_transaction_timeout", "0"}, {"wsrep_on", "OFF"}}, ""},
		"Galera":                   {mysqlWith{{"idle_transaction_timeout", "0"}, {"wsrep_on", "ON"}}, several},
		"group, single primary":    {mysqlWith{{"group_replication_single_primary_mode", "ON"}}, ""},
		"group, several primaries": {mysqlWith{{"group_replication_single_primary_mode", "OFF"}}, several},
	} {
		t.Run(name, func(t *testing.T) {
			db := sql.OpenDB(test.vars)
			defer db.Close()
			f, err := fence.NewSQL(db, fence.MySQL, fence.SQLConfig{})
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			for what, err := range map[string]error{
				"Install": f.Install(ctx),
				"Seal":    f.Seal(ctx, token(1)),
				"SealAll": f.SealAll(ctx, "accounts", 1),
				"Tx":      f.Tx(ctx, token(1), func(*sql.Tx) error { return nil }),
			} {
				if err == nil {
					t.Errorf("%s: got no error", what)
					continue
				}
				for _, why := range []string{several, statements} {
					if strings.Contains(err.Error(), why) != (why == test.refused) {
						t.Errorf("%s: got %v, want it refused for %q", what, err, test.refused)
					}
				}
				if test.refused != "" && cas.OutcomeOf(err) != cas.NotApplied {
					t.Errorf("%s: outcome: got %s, want not applied", what, cas.OutcomeOf(err))
				}
			}
		})
	}
}
