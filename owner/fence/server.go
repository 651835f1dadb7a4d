package fence

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenure-go/tenure/internal/dialect"
)

// serverFacts are what matters of a server, asked once.
type serverFacts struct {
	mariaDB bool   // it has idle_transaction_timeout
	limits  string // what Postgres is to SET LOCAL at the begin of a transaction, "" if nothing
}

// facts asks the server once, and refuses a MySQL or MariaDB on which a fence can't work.
func (f *SQL) facts(ctx context.Context) (serverFacts, error) {
	if known := f.server.Load(); known != nil {
		return *known, nil
	}
	var facts serverFacts
	var err error
	switch {
	case f.d == dialect.MySQL:
		facts, err = f.mysqlFacts(ctx)
	case f.d == dialect.Postgres && f.c.Idle > 0:
		facts.limits, err = f.postgresLimits(ctx)
	}
	if err != nil {
		return facts, notApplied("asking the server what it is", err)
	}
	f.server.Store(&facts)
	return facts, nil
}

func (f *SQL) mysqlFacts(ctx context.Context) (facts serverFacts, err error) {
	rows, err := f.db.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN "+
		"('idle_transaction_timeout', 'wsrep_on', 'group_replication_single_primary_mode', 'log_bin', 'binlog_format')")
	if err != nil {
		return facts, err
	}
	defer rows.Close()
	vars := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return facts, err
		}
		vars[name] = value
	}
	if err := rows.Err(); err != nil {
		return facts, err
	}
	on := func(name string) bool { return strings.EqualFold(vars[name], "ON") || vars[name] == "1" }
	_, grouped := vars["group_replication_single_primary_mode"]
	switch {
	case on("wsrep_on"):
		return facts, severalPrimaries("wsrep_on is ON")
	case grouped && !on("group_replication_single_primary_mode"):
		return facts, severalPrimaries("group_replication_single_primary_mode is OFF")
	case on("log_bin") && strings.EqualFold(vars["binlog_format"], "STATEMENT"):
		return facts, refused("the server logs statements (binlog_format is STATEMENT), and then takes no write " +
			"at READ COMMITTED, which a seal needs: set binlog_format to ROW, the default of MySQL, or MIXED, that of MariaDB")
	}
	_, facts.mariaDB = vars["idle_transaction_timeout"]
	return facts, nil
}

func severalPrimaries(why string) error {
	return refused("the server is one of several primaries (%s), whose locks do not hold off each other's transactions: "+
		"use a single primary", why)
}

// postgresLimits is the first statement of a transaction on Postgres: it brings down to SQLConfig.Idle what the
// session has not got down there already. SET is no query: it leaves the transaction without a snapshot, so
// that fn may lock a table before it has one. A query that compares the two in the server would take one.
func (f *SQL) postgresLimits(ctx context.Context) (string, error) {
	// What speaks like Postgres may lack one of them.
	rows, err := f.db.QueryContext(ctx, "SELECT name, setting FROM pg_settings "+
		"WHERE name IN ('idle_in_transaction_session_timeout', 'tcp_user_timeout') ORDER BY name")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var set []string
	for rows.Next() {
		var name string
		var ms int64
		if err := rows.Scan(&name, &ms); err != nil {
			return "", err
		}
		if has := time.Duration(ms) * time.Millisecond; has == 0 || has > f.c.Idle {
			// A number without a unit is milliseconds. 0 would mean never.
			set = append(set, fmt.Sprintf("SET LOCAL %s = %d", name, max(1, f.c.Idle.Milliseconds())))
		}
	}
	if len(set) > 0 { // in the same round trip
		set = append(set, f.stmt.Mark)
	}
	return strings.Join(set, "; "), rows.Err()
}

// settings are what Tx needs of a MySQL or MariaDB session, and what sets them back. The old
// values wait in variables of the session.
func (f *SQL) settings(facts serverFacts) (set, restore string) {
	set = "SET @tenure_autocommit = @@autocommit, autocommit = 0"
	restore = "SET autocommit = @tenure_autocommit"
	if f.c.Idle > 0 {
		seconds := (f.c.Idle + time.Second - 1) / time.Second
		for _, name := range []string{"net_read_timeout", "net_write_timeout"} {
			set += fmt.Sprintf(", @tenure_%s = @@%[1]s, SESSION %[1]s = LEAST(@@%[1]s, %d)", name, seconds)
			restore += fmt.Sprintf(", SESSION %s = @tenure_%[1]s", name)
		}
		if facts.mariaDB { // where 0 is no limit
			set += fmt.Sprintf(", @tenure_idle = @@idle_transaction_timeout, SESSION idle_transaction_timeout = "+
				"IF(@@idle_transaction_timeout BETWEEN 1 AND %d, @@idle_transaction_timeout, %[1]d)", seconds)
			restore += ", SESSION idle_transaction_timeout = @tenure_idle"
		}
	}
	return set, restore
}
