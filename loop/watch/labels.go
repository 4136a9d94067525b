package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/engine/client"
	"svc/events"
	"svc/fault"
	"svc/loop/outcome"
	"svc/lru"
)

// A labels is what is known of the issues with a label: when each was last updated that needs no other look.
type labels = lru.Cache[labelOf, map[int]time.Time]

type labelOf struct {
	repo  events.ID
	label string
}

// rememberLabels is for how many repositories that is known. Those of others are looked at again.
const rememberLabels = 1000

// queueLabelled queues the issues that have got the repository's label from somebody who may write to the repository, each
// once for each time that it got it. It reports whether there was any.
func (s *Watcher) queueLabelled(
	ctx context.Context, workspace, id events.ID, repo *aggregates.Repo, token string,
) (queued bool, err error) {
	of := labelOf{id, repo.Settings().Label}
	if of.label == "" {
		return false, nil
	}
	known, _ := s.labels.Get(of)
	out, err := client.Do[client.LabelledInput, client.LabelledResult](ctx, s.Engine, client.StepLabelled,
		Step(workspace, events.ID{}, id, repo, token, watchTime), client.LabelledInput{Label: of.label, Known: known}, nil, nil)
	if err != nil {
		return false, fmt.Errorf("look for labelled issues of repository %s: %w", id, err)
	}
	looked := map[int]time.Time{}
	if len(known) < maxKnown {
		maps.Copy(looked, known)
	}
	for _, i := range out.Issues {
		if i.MayWrite {
			one, err := s.queueIssue(ctx, workspace, events.Repo{ID: id, Name: repo.Name()}, of.label, i)
			if err != nil {
				return queued, err
			}
			queued = queued || one
		}
		looked[i.Number] = i.UpdatedAt
	}
	s.labels.Add(of, looked)
	return queued, nil
}

// maxKnown bounds the issues of a repository that need no other look.
const maxKnown = 1000

// queueIssue queues an issue because of a label, unless that is older than the end of the issue's last run.
func (s *Watcher) queueIssue(ctx context.Context, workspace events.ID, repo events.Repo, label string, i client.Labelled) (bool, error) {
	later, err := s.endsAfter(ctx, workspace, repo.ID, i.Number, i.At)
	if err != nil || later {
		return false, err
	}
	_, err = s.Commands.QueueRun(ctx, commands.QueueRun{
		Meta: commands.Meta{Workspace: workspace, Envelope: events.Envelope{Actor: commands.LoopOf(repo.ID), Origin: events.FromSystem}},
		Run:  events.NewID(s.Now()), Repo: repo, IssueNumber: i.Number, IssueTitle: outcome.Clean(i.Title),
		Label: &events.RunLabel{Name: label, By: outcome.Clean(i.By), Event: outcome.Clean(i.Event)},
	})
	if errors.Is(err, aggregates.ErrQueued) {
		return false, nil
	}
	return err == nil, fault.Wrap(err, "queue issue %d of repository %s", i.Number, repo.ID)
}

// endsAfter reports whether an issue has a run that has not ended, or ended after a time.
func (s *Watcher) endsAfter(ctx context.Context, workspace, repo events.ID, issue int, at time.Time) (later bool, err error) {
	err = s.DB.QueryRow(ctx, `
		select exists (select from runs where workspace_id = $1 and repo_id = $2 and issue_number = $3 and (active or finished_at > $4))`,
		workspace, repo, issue, at).Scan(&later)
	return later, fault.Wrap(err, "look for runs of issue %d", issue)
}
