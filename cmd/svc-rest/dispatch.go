package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"svc/credentials"
	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/dispatch"
)

// newDispatcher returns the dispatcher, which gives jobs to runners. Without a farm no runner
// connects, and it only enforces the time limits of existing jobs.
func newDispatcher(cfg Config, p parts, log *slog.Logger) *dispatch.Dispatcher {
	c := dispatch.Config{
		DB: p.db.Pool, Commands: p.commands, Live: p.followers.live, Logs: p.logs, Leads: p.elections.Leads, Now: time.Now, Log: log,
		Reveal: p.secrets.Reveal, CloneURL: cloneURL(p.credentials, cfg.cloneURL), ArtifactMaxJobBytes: cfg.Farm.ArtifactMaxJobBytes,
		LogRetention: time.Duration(cfg.Farm.LogDays) * 24 * time.Hour, LeaseTime: time.Duration(cfg.Farm.LeaseSeconds) * time.Second,
		ArtifactRetention: time.Duration(cfg.Farm.ArtifactDays) * 24 * time.Hour,
		CountLog:          p.daily.jobLogs.TakeShare,
	}
	if p.artifacts != nil {
		c.RemoveFiles = func(ctx context.Context, workspace, job events.ID) error {
			return artifacts.RemoveJob(ctx, p.artifacts, workspace, job)
		}
	}
	return dispatch.New(c)
}

// cloneURL returns from where jobs clone: for a connected repository what its stream says, with the credential that
// reads it, and for others, which only runs name, what byName returns.
func cloneURL(of credentials.Store, byName func(string) string) func(context.Context, events.ID, events.ID, string) (string, error) {
	return func(ctx context.Context, workspace, id events.ID, name string) (string, error) {
		repo, token, err := of.Reveal(ctx, workspace, id, events.ReadCredential)
		switch {
		case errors.Is(err, credentials.ErrUnreadable):
			return "", &dispatch.UnclonableError{Reason: "the credential of its repository cannot be opened: replace it", Err: err}
		case err != nil:
			return "", err
		case !repo.Known():
			return byName(name), nil
		case !repo.Connected():
			return "", &dispatch.UnclonableError{Reason: "its repository is not connected any more"}
		}
		u, err := url.Parse(repo.Host().Clone)
		if err != nil {
			return "", fmt.Errorf("address of repository %s: %w", id, err)
		}
		if token != "" {
			u.User = url.UserPassword(credentials.User, token)
		}
		return u.String(), nil
	}
}

// cloneURL returns the URL from which a repository of the code host that people sign in by is cloned.
func (c Config) cloneURL(repo string) string {
	return strings.TrimSuffix(c.OAuthURL.Reveal(), "/") + "/" + repo + ".git"
}
