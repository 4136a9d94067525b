package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// An EncodingError refuses a database that does not store text as UTF-8. Its text has no address and no
// secret.
type EncodingError struct{ encoding string }

func (e *EncodingError) Error() string {
	return fmt.Sprintf("the database's encoding is %s and has to be UTF8: create one with \"create database … encoding 'UTF8' "+
		"template template0\" and move the data as OPERATIONS.md says under \"Programs and upgrades\"", e.encoding)
}

// RequireUTF8 makes connections fail with an [*EncodingError] unless the database stores text as UTF-8:
// any other garbles texts, or takes bytes that are none. It also makes them send text as UTF-8 and
// statements with the standard's escapes, whatever is set for the role or the database. PgBouncer follows
// these settings.
func RequireUTF8(c *pgx.ConnConfig) {
	c.RuntimeParams["client_encoding"] = "UTF8"
	c.RuntimeParams["standard_conforming_strings"] = "on"
	before := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if encoding := conn.ParameterStatus("server_encoding"); encoding != "UTF8" {
			return &EncodingError{encoding}
		}
		if before != nil {
			return before(ctx, conn)
		}
		return nil
	}
}
