package pgserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"svc/atomicfile"
)

// prepare creates the cluster if there is none, and returns its password.
func (s *Server) prepare(ctx context.Context) (string, error) {
	password, err := s.readPassword()
	if err != nil {
		return "", err
	}
	if clusterMajor(s.data()) == 0 {
		if err := s.initialise(ctx); err != nil {
			return "", err
		}
	}
	return password, s.programs.account.own(s.config.Dir)
}

func (s *Server) passwordFile() string { return filepath.Join(s.config.Dir, "password") }

// readPassword reads the cluster's password, and creates one at the first start.
func (s *Server) readPassword() (string, error) {
	text, err := os.ReadFile(s.passwordFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if password := strings.TrimSpace(string(text)); password != "" {
		return password, nil
	}
	if clusterMajor(s.data()) != 0 {
		return "", fmt.Errorf("%s is gone or empty but the cluster is there: put it back, or remove the folder to begin anew", s.passwordFile())
	}
	random := make([]byte, 24)
	rand.Read(random) // never fails
	password := hex.EncodeToString(random)
	return password, atomicfile.Write(s.passwordFile(), []byte(password+"\n"), 0o600)
}

// initialise runs initdb beside the final folder and renames the result, so that an interrupted
// start leaves no incomplete cluster.
func (s *Server) initialise(ctx context.Context) error {
	fresh := s.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := s.programs.account.own(s.config.Dir); err != nil {
		return err
	}
	args := []string{
		"--pgdata=" + fresh, "--username=" + User, "--pwfile=" + s.passwordFile(),
		"--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions",
	}
	if s.config.Durable {
		args = append(args, "--auth=scram-sha-256")
	} else {
		// Tests connect thousands of times, and SCRAM computes 8,000 hashes for a connection, slowly under the
		// race detector. WAL files are small, because a cluster for tests is written in full at each run.
		args = append(args, "--auth=md5", "--no-sync", "--wal-segsize=1")
	}
	cmd := s.programs.command(ctx, "initdb", args...)
	if out, err := output(cmd); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, tail(out))
	}
	return os.Rename(fresh, s.data())
}

// clusterMajor returns the major version of the cluster, or 0 if there is none.
func clusterMajor(data string) int {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return major
}

// settings returns the server's settings. They are passed on the command line so that they apply to
// old clusters too.
func (s *Server) settings() []string {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"port=" + s.port(),
		"unix_socket_directories=",
		"max_connections=200",
		"timezone=UTC",
		"log_timezone=UTC",
		"logging_collector=off",
		"log_destination=stderr",
		"shared_preload_libraries=",
		// POSIX segments would remain in /dev/shm after a SIGKILL.
		"dynamic_shared_memory_type=mmap",
	}
	if !s.config.Durable {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"max_connections=1000") // many parallel tests
	}
	return settings
}
