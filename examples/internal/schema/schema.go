// Package schema gives an example a place of its own in somebody's Postgres, and takes it away in the end.
package schema

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
)

// Create makes the schema name in the database that a URL names, and returns a URL whose sessions work there. drop
// removes the schema with all that is in it; call it once nobody uses it.
func Create(ctx context.Context, database, name string) (place string, drop func() error, err error) {
	u, err := url.Parse(database)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", nil, errors.New("database: want a URL, postgres://USER:PASSWORD@HOST/NAME") // the error of Parse may show the password
	}
	ident := pgx.Identifier{name}.Sanitize()
	if err := exec(ctx, database, "CREATE SCHEMA "+ident); err != nil {
		return "", nil, err
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String(), func() error {
		return exec(context.WithoutCancel(ctx), database, "DROP SCHEMA "+ident+" CASCADE")
	}, nil
}

func exec(ctx context.Context, database, stmt string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, stmt); err != nil {
		return fmt.Errorf("database: %s: %w", stmt, err)
	}
	return nil
}
