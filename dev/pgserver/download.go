package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const downloadTimeout = 3 * time.Minute

// byDownload downloads and unpacks programs with the embedded-postgres library.
func byDownload(ctx context.Context, s search) ([]string, error) {
	version := embeddedpostgres.V17
	dir, err := s.account.cached("embedded-" + string(version))
	if err != nil {
		return nil, err
	}
	err = fillOnce(ctx, dir, func(fresh string) error {
		s.log.Info("downloading PostgreSQL", "by", "embedded-postgres", "version", string(version), "folder", dir)
		return download(ctx, version, fresh)
	})
	return []string{filepath.Join(dir, "bin")}, err
}

// download downloads into dir. The library supports neither contexts nor timeouts, so a hanging
// download is left to end by itself.
func download(ctx context.Context, version embeddedpostgres.PostgresVersion, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- unpack(version, dir) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unpack starts and stops the library's server, its only way to get the programs. As root that
// start fails once the programs are there, which suffices.
func unpack(version embeddedpostgres.PostgresVersion, dir string) error {
	scratch, err := os.MkdirTemp("", "svc-postgres-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	port, err := freePort()
	if err != nil {
		return err
	}
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(version).Port(port).Logger(io.Discard).
		CachePath(scratch).RuntimePath(filepath.Join(scratch, "run")).BinariesPath(dir))
	err = server.Start()
	if err == nil {
		return server.Stop()
	}
	if _, missing := os.Stat(filepath.Join(dir, "bin", "postgres")); missing != nil {
		return fmt.Errorf("embedded-postgres: %w", err)
	}
	return nil
}

func freePort() (uint32, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return 0, errors.Join(err, listener.Close())
	}
	port, err := strconv.ParseUint(text, 10, 32)
	return uint32(port), errors.Join(err, listener.Close())
}
