// Command bench compares the service with a baseline that does the least possible work,
// on one PostgreSQL with durable settings. Both sides take turns, and each figure is the
// median of several rounds.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"
)

// A bench is a row of the table: a name, a goal for the ratio, and the function that measures.
type bench struct {
	name string
	goal string // of the ratio, as it is printed: "≥ 1.2"
	ok   func(ratio float64) bool
	run  func(ctx context.Context, s *suite) (result, error)
}

// A result has one ratio for each round, and details that are printed after the ratio.
type result struct {
	Ratios    []float64      `json:"ratios"`
	CPURatios []float64      `json:"-"` // ratios of processor time per operation
	Note      map[string]any `json:"note,omitempty"`
}

func atLeast(goal float64) func(float64) bool { return func(r float64) bool { return r >= goal } }
func atMost(goal float64) func(float64) bool  { return func(r float64) bool { return r <= goal } }

var benches = []bench{
	{"append_spread", "≥ 1.4", atLeast(1.4), appendSpread},
	{"append_wide", "≥ 2.8", atLeast(2.8), appendWide},
	{"append_hot", "≥ 2.8", atLeast(2.8), appendHot},
	{"append_growth", "≤ 1.3", atMost(1.3), appendGrowth},
	{"append_peer", "≥ 1.5", atLeast(1.5), appendPeer},
	{"role_change", "≥ 1", atLeast(1), roleChange},
	{"event_cost", "≤ 2", atMost(2), eventCost},
	{"event_bytes", "≤ 2.5", atMost(2.5), eventBytes},
	{"read_runs", "≥ 0.75", atLeast(0.75), readRuns},
	{"read_growth", "≤ 1.3", atMost(1.3), readGrowth},
	{"runs_partial", "≤ 1.3", atMost(1.3), runsPartial},
	{"members_page", "≤ 2", atMost(2), membersPage},
	{"poll", "≥ 0.8", atLeast(0.8), poll},
	{"fair_shares", "≤ 2", atMost(2), fairness(readStorm)},
	{"fair_bodies", "≤ 2", atMost(2), fairness(bodyStorm)},
	{"fair_accounts", "≤ 2", atMost(2), fairness(accountStorm)},
	{"fair_credentials", "≤ 2", atMost(2), fairness(credentialStorm, "SVC_RATE_LIMIT=6000")},
	{"fair_callbacks", "≤ 2", atMost(2), fairness(callbackStorm)},
	{"rebuild", "≥ 0.4", atLeast(0.4), rebuildViews},
	{"rebuild_growth", "≤ 1.2", atMost(1.2), rebuildGrowth},
	{"rebuild_many", "≤ 3", atMost(3), rebuildMany},
	{"catch_up", "≥ 0.5", atLeast(0.5), catchUp},
	{"export", "≥ 0.35", atLeast(0.35), export},
	{"follow", "≥ 100", atLeast(100), follow},
	{"wake", "≤ 1 (p99 of 50 ms)", atMost(1), wake},
	{"farm_claim", "≤ 1.5", atMost(1.5), farmClaim},
	{"farm_claim_key", "≤ 1.5", atMost(1.5), farmClaimKey},
	{"farm_ingest", "≥ 0.4", atLeast(0.4), farmIngest},
	{"farm_agents", "≤ 1 (of 30 KiB each, p99 of 1 s)", atMost(1), farmAgents},
	{"farm_dispatch", "≤ 1 (p99 of 100 ms)", atMost(1), farmDispatch},
	{"farm_upload", "≥ 0.8", atLeast(0.8), farmUpload},
	{"ui_page", "≥ 0.5", atLeast(0.5), uiPage},
	{"ui_first_byte", "≤ 1 (of 10 ms)", atMost(1), uiFirstByte},
	{"ui_live", "≤ 1 (p99 of 500 ms)", atMost(1), uiLive},
	{"run_loop", "≤ 2", atMost(2), runLoop},
	{"run_many", "≤ 1.5", atMost(1.5), runMany},
	{"hook", "≤ 1 (p99 of 2 s)", atMost(1), hook},
	{"run_idle", "≤ 1 (of 1 % of a processor)", atMost(1), runIdle},
	{"step_commit", "≤ 1.2", atMost(1.2), stepCommit},
	{"idle", "≤ 1 (of 40 MiB, 300 ms)", atMost(1), idle},
}

var (
	runPattern  = flag.String("run", "", "regular expression for the names of the benches to run")
	rounds      = flag.Int("rounds", 5, "rounds of each bench")
	turn        = flag.Duration("turn", 2*time.Second, "duration of a turn of one side")
	scale       = flag.Float64("scale", 1, "factor of the size of the large logs, such as 0.1 for a quick run")
	jsonFile    = flag.String("json", "bin/bench.json", "file for the figures as JSON")
	cpu         = flag.String("cpuprofile", "", "file for a CPU profile of this program")
	leanAddr    = flag.String("lean", "", "serve the baseline of role_change at this address; the argument is the URL of its database")
	stormAddr   = flag.String("storm", "", "repeat the requests from standard input at this address without end")
	databaseDir = flag.String("dir", "", "folder of the database; if empty, a temporary one")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case *leanAddr != "":
		err = serveLean(ctx, *leanAddr, flag.Arg(0))
	case *stormAddr != "":
		err = sendStorm(ctx, *stormAddr, os.Stdin, os.Stdout)
	default:
		err = runBenches(ctx)
	}
	stop()
	if err != nil {
		slog.Error("bench", "err", err)
		os.Exit(1)
	}
}

// runBenches runs the benches whose names match -run, prints a line for each, and writes -json.
func runBenches(ctx context.Context) (err error) {
	if *cpu != "" {
		f, err := os.Create(*cpu)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	pattern, err := regexp.Compile(*runPattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	s, err := newSuite(ctx, *databaseDir)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.close()) }()
	report := map[string]any{}
	for _, b := range benches {
		if !pattern.MatchString(b.name) {
			continue
		}
		r, err := b.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		ratio, verdict := median(r.Ratios), "short"
		if b.ok(ratio) {
			verdict = "ok"
		}
		fmt.Printf("bench %s ratio=%.2f goal=%q %s", b.name, ratio, b.goal, verdict)
		for _, name := range sortedNames(r.Note) {
			fmt.Printf(" %s=%v", name, r.Note[name])
		}
		fmt.Println()
		report[b.name] = map[string]any{"ratio": ratio, "goal": b.goal, "ok": verdict == "ok", "ratios": r.Ratios, "note": r.Note}
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*jsonFile, append(text, '\n'), 0o644)
}

// scaled returns n times the -scale flag, at least 1000.
func scaled(n int) int { return max(1000, int(float64(n)*(*scale))) }

func sortedNames(m map[string]any) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// median returns the upper median of a list that is not empty.
func median[T cmp.Ordered](list []T) T {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}
