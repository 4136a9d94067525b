package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events/store"
	"svc/fault"
	"svc/migrations"
)

const (
	retryPause = time.Second
	// closeTimeout is the timeout for cancelling an interrupted statement, and for closing the connection.
	closeTimeout = 5 * time.Second
)

// withConnection calls use with a connection to the database and closes it
// afterwards.
func (inv invocation) withConnection(ctx context.Context, use func(*pgx.Conn) error) error {
	cfg, err := inv.connConfig()
	if err != nil {
		return err
	}
	conn, err := inv.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return use(conn)
}

func (inv invocation) connConfig() (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(inv.url.Reveal())
	if err != nil {
		var file *fs.PathError // of a certificate or key
		if errors.As(err, &file) {
			return nil, fmt.Errorf("read the database's ssl files: %w", file)
		}
		return nil, errUnreadable // err may quote the address
	}
	store.RequireUTF8(cfg)
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { printNotice(inv.out, n) }
	// Cancelling ctx also cancels the statement in the server. If only the connection were closed,
	// the statement would go on and keep its locks.
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: closeTimeout}
	}
	return cfg, nil
}

func printNotice(out io.Writer, n *pgconn.Notice) {
	fmt.Fprintf(out, "DB: %s: %s\n", n.Severity, n.Message)
}

// connect connects, and retries as often as -connect-retries says.
func (inv invocation) connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	for left := inv.retries; ; left-- {
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err == nil {
			return conn, nil
		}
		_, final := errors.AsType[*store.EncodingError](err)
		err = fmt.Errorf("connect to the database at %s: %s", hostPorts(cfg), cause(err))
		if left == 0 || ctx.Err() != nil || final {
			return nil, err
		}
		fmt.Fprintf(inv.out, "WARNING: %v. Retrying in 1 sec...\n", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(retryPause):
		}
	}
}

// withDatabase calls do with a pool of connections to a database that this build has migrated.
func (inv invocation) withDatabase(ctx context.Context, do func(*pgxpool.Pool) error) error {
	err := inv.withConnection(ctx, func(conn *pgx.Conn) error { return migrations.Current(ctx, conn) })
	if err != nil {
		return err
	}
	db, err := inv.pool(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return do(db)
}

// pool opens a connection pool.
func (inv invocation) pool(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(inv.url.Reveal())
	if err != nil {
		return nil, errUnreadable // err may quote the address
	}
	store.RequireUTF8(cfg.ConnConfig)
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	return db, fault.Wrap(err, "open database")
}

// hostPorts returns every host and port that cfg would try.
func hostPorts(cfg *pgx.ConnConfig) string {
	list := []string{net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))}
	for _, f := range cfg.Fallbacks {
		list = append(list, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// cause returns the root cause of a connection error, without addresses.
func cause(err error) string {
	var server *pgconn.PgError
	var dns *net.DNSError
	var op *net.OpError
	switch encoding, ok := errors.AsType[*store.EncodingError](err); {
	case ok:
		return encoding.Error()
	case errors.As(err, &server):
		return server.Error()
	case errors.As(err, &dns):
		return dns.Error()
	case pgconn.Timeout(err):
		return "no answer in time"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}
