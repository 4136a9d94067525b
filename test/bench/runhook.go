package main

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/dev/codehost"
)

const (
	hookGoal   = 2000 // ms
	hookPushes = 120  // the first 20 are not measured
)

// hook measures how long after a push to a run's branch was answered the run shows it, of which the code host tells.
func hook(ctx context.Context, s *suite) (result, error) {
	const name = "acme/hooked"
	l, err := s.newLoopStack(ctx, []codehost.Repository{newRepository(name, 1)})
	if err != nil {
		return result{}, err
	}
	defer l.stop()
	if err := l.startRunner(ctx, 1); err != nil {
		return result{}, err
	}
	repo, err := l.connect(ctx, name, 5, "true")
	if err != nil {
		return result{}, err
	}
	run, err := l.queue(ctx, repo, 1)
	if err != nil {
		return result{}, err
	}
	for at := (progress{}); len(at.Decisions) == 0; {
		if at, err = l.progress(ctx); err == nil {
			err = wait(ctx, 10*time.Millisecond)
		}
		if err != nil {
			return result{}, err
		}
	}
	h, err := newHandmade(ctx, l.file("hooked"), l.codeHost, name)
	if err != nil {
		return result{}, err
	}
	var took []float64
	for i := range hookPushes {
		ms, err := l.timePush(ctx, h, run, i)
		if err != nil {
			return result{}, err
		}
		if i >= 20 {
			took = append(took, ms)
		}
	}
	p99 := percentile(took, 0.99)
	note := map[string]any{"p50_ms": twoDecimals(percentile(took, 0.5)), "p99_ms": twoDecimals(p99)}
	return result{Ratios: []float64{p99 / hookGoal}, Note: note}, nil
}

// timePush adds a commit to a run's branch, and returns the milliseconds from the end of the push until the run shows it.
func (l *loopStack) timePush(ctx context.Context, h *handmade, run string, n int) (ms float64, err error) {
	s := &script{handmade: h, ctx: ctx}
	branch := "refs/heads/run/" + run
	s.git("", "fetch", "--quiet", h.clone, branch)
	made := s.git("Commit "+strconv.Itoa(n), "commit-tree", "FETCH_HEAD^{tree}", "-p", "FETCH_HEAD")
	s.git("", "push", "--quiet", h.clone, made+":"+branch)
	if s.err != nil {
		return 0, s.err
	}
	from := time.Now()
	for head := ""; head != made; {
		rows, _ := l.db.Query(ctx, `select detail::jsonb ->> 'head' from runs where workspace_id = $1 and run_id = $2`, l.team.id, run)
		if head, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string]); err == nil {
			err = wait(ctx, 2*time.Millisecond)
		}
		if err != nil {
			return 0, err
		}
	}
	return float64(time.Since(from).Microseconds()) / 1000, nil
}
