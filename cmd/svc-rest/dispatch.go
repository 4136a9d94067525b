package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/dispatch"
)

// newDispatcher returns the dispatcher, which gives jobs to runners. Without a farm no runner
// connects, and it only enforces the time limits of existing jobs.
func newDispatcher(cfg Config, p parts, log *slog.Logger) *dispatch.Dispatcher {
	c := dispatch.Config{
		DB: p.db.Pool, Commands: p.commands, Live: p.followers.live, Logs: p.logs, Leads: p.elections.Leads, Now: time.Now, Log: log,
		Reveal: p.secrets.Reveal, CloneURL: cfg.cloneURL, ArtifactMaxJobBytes: cfg.Farm.ArtifactMaxJobBytes,
		LogRetention: time.Duration(cfg.Farm.LogDays) * 24 * time.Hour, LeaseTime: time.Duration(cfg.Farm.LeaseSeconds) * time.Second,
		ArtifactRetention: time.Duration(cfg.Farm.ArtifactDays) * 24 * time.Hour,
		CountLog:          p.volumes.jobLogs.TakeShare,
	}
	if p.artifacts != nil {
		c.RemoveFiles = func(ctx context.Context, workspace, job events.ID) error {
			return artifacts.RemoveJob(ctx, p.artifacts, workspace, job)
		}
	}
	return dispatch.New(c)
}

// cloneURL returns the URL from which a repository of the code host is cloned.
func (c Config) cloneURL(repo string) string {
	return strings.TrimSuffix(c.OAuthURL.Reveal(), "/") + "/" + repo + ".git"
}
