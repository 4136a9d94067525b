//go:build linux

// Package run tests the whole product as make run starts it: the real programs on a real
// PostgreSQL, the files and processes that they leave behind, and what remains of the data
// when any of them is killed.
//
// # Chaos
//
// TestNothingAcknowledgedIsEverLost (for minutes: make chaos) has sixteen writers that send
// commands to two replicas of svc-rest, and a local worker that executes commands in the test's
// own process, while the faults of faults_test.go strike in an order derived from a printed seed:
// connections cut, slow or stalled, replicas killed or paused for longer than a lease,
// PostgreSQL restarted, aborted and killed, its disk full, the worker's clock hours off,
// messages of the bus redelivered. Each fault checks that it has taken effect. The disk is a
// small file system in a mount namespace of the test's own, which an ordinary user may create
// as well; where that is forbidden, the test says so and leaves this fault out.
//
// Afterwards each acknowledged command is in its log once, at the position of the answer, and
// no command is there twice; no log has a gap; every view equals its rebuild byte for byte;
// each event was delivered by the bus and handled once; no goroutine is left.
//
// TestARightEndsAtOnce checks with porcupine that tokens, accounts, roles and memberships are
// linearizable over both replicas, and that the check detects an artificial cache of 40 ms.
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

// waitLimit is how long a test waits for anything, including demonstration data on a
// busy machine.
const waitLimit = 3 * time.Minute

// programs is the folder of the built programs, and sharedDir one that every user can read.
var programs, sharedDir string

func TestMain(m *testing.M) {
	code, err := withPrograms(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// withPrograms builds the programs, unless a parent test process has, and runs the tests.
func withPrograms(run func() int) (int, error) {
	if sharedDir = os.Getenv(sharedDirVar); sharedDir != "" {
		programs, seeding.data = filepath.Join(sharedDir, "bin"), filepath.Join(sharedDir, "seeded")
		return run(), nil
	}
	var err error
	if sharedDir, err = os.MkdirTemp("", "svc-run-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(sharedDir)
	if err := os.Chmod(sharedDir, 0o755); err != nil { // for tests that run svc as an ordinary user
		return 1, err
	}
	programs = filepath.Join(sharedDir, "bin")
	if err := build(); err != nil {
		return 1, err
	}
	return run(), nil
}

// build builds the programs, with the race detector if the tests have it. Svc-db and svc-runner
// go without: svc-db has no concurrency, and its demonstration data would take four times as
// long; svc-runner would be packed ten times as large.
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
