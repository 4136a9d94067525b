//go:build linux

// Package run tests the whole product as make run starts it: the real programs
// and a real PostgreSQL, the files and processes that they leave, and what is
// left of the data when any of them is killed.
//
// # Chaos
//
// TestNothingAcknowledgedIsEverLost (for minutes: make chaos) has sixteen writers send
// commands to two svc-rest, and a clerk carry out commands in the test's own process,
// while the faults of faults_test.go come in an order made from a printed seed:
// connections cut, slow or silent, replicas killed or stopped for longer than a lease,
// PostgreSQL restarted, aborted and killed, its disk full, the clerk's clock hours
// off, messages of the bus delivered again. A fault counts only when it is seen to
// have happened. The disk is a small file system in a mount namespace of the test's
// own, which an ordinary user gets as well; where that is forbidden the test says so
// and goes without.
//
// Afterwards each acknowledged command is in its log once, where the answer said, and
// none is in it twice; no log has a gap; every view is, byte for byte, what a rebuild
// makes; each event came over the bus, and what follows from it followed once; no
// goroutine is left. TestARightEndsAtOnce holds tokens, accounts, roles and
// memberships against porcupine, over both replicas; a cache of 40 ms, put in by the
// test, is found in each.
package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// patience is how long anything that is waited for may take, the demonstration
// data on a busy machine too.
const patience = 3 * time.Minute

// programs is the folder of the programs, and shared one that they can read
// whoever runs them.
var programs, shared string

func TestMain(m *testing.M) {
	code, err := withPrograms(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func withPrograms(run func() int) (int, error) {
	if shared = os.Getenv(sharedBy); shared != "" {
		programs, seeding.data = filepath.Join(shared, "bin"), filepath.Join(shared, "seeded")
		return run(), nil
	}
	var err error
	if shared, err = os.MkdirTemp("", "svc-run-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(shared)
	if err := os.Chmod(shared, 0o755); err != nil { // an ordinary user must get in
		return 1, err
	}
	programs = filepath.Join(shared, "bin")
	if err := build(); err != nil {
		return 1, err
	}
	return run(), nil
}

// build makes the programs, with the race detector if these tests have it.
// Svc-db goes without: it works alone, and its demonstration data would take
// four times as long. So does svc-runner, which would be packed ten times as large.
func build() error {
	services := []string{"svc/cmd/svc", "svc/cmd/svc-engine", "svc/cmd/svc-codehost", "svc/cmd/svc-rest", "svc/cmd/svc-ui",
		"svc/cmd/svc-gateway"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		services = append([]string{"-race"}, services...)
	}
	for _, what := range [][]string{{"svc/cmd/svc-db", "svc/cmd/svc-runner"}, services} {
		out, err := exec.Command("go",
			append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", programs + "/"}, what...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	return nil
}
