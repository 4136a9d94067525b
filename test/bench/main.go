// Command bench compares the service with the least that could be done
// instead, side by side on one PostgreSQL that keeps what it was told. Each
// figure is the median of several rounds, in which the two take turns.
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

// A bench is a row of the table: what is measured, and the goal for it.
type bench struct {
	name string
	goal string // what the ratio is to be, in words: "≥ 1.2"
	ok   func(ratio float64) bool
	run  func(ctx context.Context, s *site) (result, error)
}

// A result has a ratio for each round, and figures worth a look.
type result struct {
	Ratios []float64      `json:"ratios"`
	Each   []float64      `json:"-"` // ratios of processor time
	Note   map[string]any `json:"note,omitempty"`
}

func least(goal float64) func(float64) bool { return func(r float64) bool { return r >= goal } }
func most(goal float64) func(float64) bool  { return func(r float64) bool { return r <= goal } }

var benches = []bench{
	{"append_spread", "≥ 1.4", least(1.4), appendSpread},
	{"append_wide", "≥ 2.8", least(2.8), appendWide},
	{"append_hot", "≥ 2.8", least(2.8), appendHot},
	{"append_growth", "≤ 1.3", most(1.3), appendGrowth},
	{"append_peer", "≥ 1.5", least(1.5), appendPeer},
	{"role_change", "≥ 1", least(1), roleChange},
	{"event_cost", "≤ 2", most(2), eventCost},
	{"event_bytes", "≤ 2.5", most(2.5), eventBytes},
	{"read_runs", "≥ 0.75", least(0.75), readRuns},
	{"read_growth", "≤ 1.3", most(1.3), readGrowth},
	{"runs_partial", "≤ 1.3", most(1.3), runsPartial},
	{"members_page", "≤ 2", most(2), membersPage},
	{"poll", "≥ 0.8", least(0.8), poll},
	{"fair_shares", "≤ 2", most(2), fairly(readStorm)},
	{"fair_bodies", "≤ 2", most(2), fairly(bodyStorm)},
	{"fair_accounts", "≤ 2", most(2), fairly(accountStorm)},
	{"fair_credentials", "≤ 2", most(2), fairly(credentialStorm, "SVC_RATE_LIMIT=6000")},
	{"fair_callbacks", "≤ 2", most(2), fairly(callbackStorm, "SVC_RATE_LIMIT=1000000")}, // limits are on
	{"rebuild", "≥ 0.4", least(0.4), rebuildViews},
	{"rebuild_growth", "≤ 1.2", most(1.2), rebuildGrowth},
	{"rebuild_many", "≤ 3", most(3), rebuildMany},
	{"catch_up", "≥ 0.5", least(0.5), catchUp},
	{"export", "≥ 0.35", least(0.35), export},
	{"follow", "≥ 100", least(100), follow},
	{"wake", "≤ 1 (p99 of 50 ms)", most(1), wake},
	{"farm_claim", "≤ 1.5", most(1.5), farmClaim},
	{"farm_claim_key", "≤ 1.5", most(1.5), farmClaimKey},
	{"farm_ingest", "≥ 0.4", least(0.4), farmIngest},
	{"farm_agents", "≤ 1 (of 30 KiB each, p99 of 1 s)", most(1), farmAgents},
	{"farm_dispatch", "≤ 1 (p99 of 100 ms)", most(1), farmDispatch},
	{"farm_upload", "≥ 0.8", least(0.8), farmUpload},
	{"ui_page", "≥ 0.5", least(0.5), uiPage},
	{"ui_first_byte", "≤ 1 (of 10 ms)", most(1), uiFirstByte},
	{"ui_live", "≤ 1 (p99 of 500 ms)", most(1), uiLive},
	{"idle", "≤ 1 (of 40 MiB, 300 ms)", most(1), idle},
}

var (
	only     = flag.String("run", "", "a pattern for the names of those to run")
	rounds   = flag.Int("rounds", 5, "how often each is measured")
	turn     = flag.Duration("turn", 2*time.Second, "how long a turn takes")
	scale    = flag.Float64("scale", 1, "how large the large logs are to be, such as 0.1 for a quick look")
	file     = flag.String("json", "bin/bench.json", "where the figures go as JSON")
	cpu      = flag.String("cpuprofile", "", "where a CPU profile of this program goes")
	byHand   = flag.String("lean", "", "serve the role change that is written by hand at this address, from the database that follows")
	stranger = flag.String("storm", "", "insist at this address on the requests of the standard input, as strangers do")
	keep     = flag.String("dir", "", "the folder of the database; made and removed if empty")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case *byHand != "":
		err = serveLean(ctx, *byHand, flag.Arg(0))
	case *stranger != "":
		err = storming(ctx, *stranger, os.Stdin)
	default:
		err = run(ctx)
	}
	stop()
	if err != nil {
		slog.Error("bench", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
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
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	s, err := newSite(ctx, *keep)
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
		for _, name := range sorted(r.Note) {
			fmt.Printf(" %s=%v", name, r.Note[name])
		}
		fmt.Println()
		report[b.name] = map[string]any{"ratio": ratio, "goal": b.goal, "ok": verdict == "ok", "ratios": r.Ratios, "note": r.Note}
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*file, append(text, '\n'), 0o644)
}

// scaled is how many there are to be of n.
func scaled(n int) int { return max(1000, int(float64(n)*(*scale))) }

func sorted(m map[string]any) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func median[T cmp.Ordered](list []T) T {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}
