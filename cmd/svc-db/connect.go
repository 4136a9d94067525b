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
)

const (
	retryPause = time.Second
	// closeTimeout is the timeout for cancelling an interrupted statement, and for closing the connection.
	closeTimeout = 5 * time.Second
)

// withConnection calls use with a connection to the database and closes it
// afterwards.
func (j job) withConnection(ctx context.Context, use func(*pgx.Conn) error) error {
	cfg, err := j.connConfig()
	if err != nil {
		return err
	}
	conn, err := j.connect(ctx, cfg)
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

func (j job) connConfig() (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(j.url.Reveal())
	if err != nil {
		var file *fs.PathError // of a certificate or key
		if errors.As(err, &file) {
			return nil, fmt.Errorf("read the database's ssl files: %w", file)
		}
		return nil, errUnreadable // err may quote the address
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { report(j.out, n) }
	// Cancelling ctx also cancels the statement in the server. If only the connection were closed,
	// the statement would go on and keep its locks.
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: closeTimeout}
	}
	return cfg, nil
}

func report(out io.Writer, n *pgconn.Notice) {
	fmt.Fprintf(out, "DB: %s: %s\n", n.Severity, n.Message)
}

// connect connects, and retries as often as -connect-retries says.
func (j job) connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	for left := j.retries; ; left-- {
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err == nil {
			return conn, nil
		}
		err = fmt.Errorf("connect to the database at %s: %s", hostPorts(cfg), cause(err))
		if left == 0 || ctx.Err() != nil {
			return nil, err
		}
		fmt.Fprintf(j.out, "WARNING: %v. Retrying in 1 sec...\n", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(retryPause):
		}
	}
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
	switch {
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
