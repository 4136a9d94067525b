package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/joblog"
)

// newDispatcher makes what gives jobs to runners. Where the farm is off no runner connects,
// and it only keeps the time of jobs that there are.
func newDispatcher(cfg Config, p parts, logs *joblog.Logs, log *slog.Logger) *dispatch.Dispatcher {
	return dispatch.New(dispatch.Config{
		DB: p.db.Pool, Commands: p.commands, Live: p.followers.live, Logs: logs, Leads: p.followers.elections.Leads, Now: time.Now, Log: log,
		Reveal: noSecrets, CloneURL: cfg.cloneURL, ArtifactMaxJobBytes: cfg.Farm.ArtifactMaxJobBytes,
	})
}

// noSecrets has none.
func noSecrets(_ context.Context, _ events.ID, names []string) (map[string]string, error) {
	return nil, &dispatch.MissingSecret{Name: names[0]}
}

// cloneURL is where a repository of the code host is cloned from.
func (c Config) cloneURL(repo string) string {
	return strings.TrimSuffix(c.OAuthURL.Reveal(), "/") + "/" + repo + ".git"
}
