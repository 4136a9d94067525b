package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/release"
	"svc/http/farm"
	"svc/http/limit"
	"svc/http/rest"
	"svc/metrics"
	"svc/projections"
	"svc/vault"
)

const (
	enrolments    = 10 // a minute from one address
	allEnrolments = 100
)

// newFarm makes what answers build machines. Where the farm is off, it says so.
func newFarm(cfg Config, p parts, perCaller *limit.Limit, m *metrics.Metrics, log *slog.Logger) (*farm.Server, error) {
	perAddress, err := limit.PerMinute(min(enrolments, cfg.RateLimit))
	if err != nil {
		return nil, fmt.Errorf("limit of enrolments: %w", err)
	}
	ofAll, err := limit.PerMinute(min(allEnrolments, cfg.RateLimit))
	if err != nil {
		return nil, fmt.Errorf("limit of all enrolments: %w", err)
	}
	m.Limit("enrolment", perAddress.Refused)
	m.Limit("all_enrolments", ofAll.Refused)
	c := farm.Config{
		On: cfg.farmOn(), Commands: p.commands, Runners: projections.Runners{DB: p.db.Pool}, Secrets: vault.Secrets{DB: p.db.Pool, Ring: p.ring},
		Header: string(cfg.Farm.ClientCertHeader), Dispatcher: p.dispatcher, Limit: perCaller, Enrolments: perAddress, AllEnrolments: ofAll,
		Artifacts: p.artifacts, ArtifactMaxJobBytes: cfg.Farm.ArtifactMaxJobBytes,
		ReleaseKeys: func() []string { return releaseKeys(p.releases) }, Now: time.Now, Log: log,
	}
	if len(cfg.Farm.TrustedProxies) > 0 {
		c.Trusted = cfg.Farm.TrustedProxies.Contains
	}
	if !cfg.Farm.PublicURL.IsZero() {
		c.PublicURL = cfg.Farm.PublicURL.URL()
	}
	return farm.New(c), nil
}

// farmOf is what people's routes of the farm work with.
func farmOf(cfg Config, p parts, machines *farm.Server) rest.Farm {
	f := rest.Farm{
		Vault: p.farmSecrets(), On: cfg.farmOn(), Ready: cfg.farmReady(p.releases), Authority: machines.Authority,
		Logs: p.logs, LogDays: cfg.Farm.LogDays,
	}
	if !cfg.Farm.PublicURL.IsZero() {
		f.PublicURL = strings.TrimSuffix(cfg.Farm.PublicURL.Reveal(), "/")
	}
	if machines.Artifacts != nil {
		f.Artifact = func(ctx context.Context, workspace, job, artifact events.ID) (io.ReadSeekCloser, error) {
			return artifacts.Open(ctx, machines.Artifacts, workspace, job, artifact)
		}
	}
	return f
}

// farmReady says what is set of that without which no machine can be enrolled, and what
// is missing.
func (c Config) farmReady(folder *release.Folder) func() (set, missing []string) {
	return func() (set, missing []string) {
		set, missing = []string{}, []string{}
		note := func(variable string, is bool) {
			if is {
				set = append(set, variable)
			} else {
				missing = append(missing, variable)
			}
		}
		note("SVC_FARM_PUBLIC_URL", !c.Farm.PublicURL.IsZero())
		note("SVC_FARM_CLIENT_CERT_HEADER", c.Farm.ClientCertHeader != "")
		if lacks := folder.Missing(); len(lacks) > 0 {
			missing = append(missing, lacks...)
		} else {
			set = append(set, "SVC_FARM_RELEASES_DIR")
		}
		return set, missing
	}
}

// releases is the folder that the variables name.
func (c Config) releases() (*release.Folder, error) {
	keys, err := release.ParseKeys(c.Farm.ReleaseKeys)
	if err != nil {
		return nil, fmt.Errorf("SVC_FARM_RELEASE_KEYS is malformed: %w", err)
	}
	return release.NewFolder(c.Farm.ReleasesDir, keys), nil
}

// downloads serve the installer and the releases. Whatever keeps runners from being
// installed is said at once: nobody may ask for days.
func downloads(cfg Config, folder *release.Folder, log *slog.Logger) http.Handler {
	if _, missing := cfg.farmReady(folder)(); cfg.farmOn() && len(missing) > 0 {
		log.Warn("no runner can be enrolled", "missing", missing)
	}
	d := farm.Releases{On: cfg.farmOn(), Folder: folder, Log: log}
	if !cfg.Farm.PublicURL.IsZero() {
		d.PublicURL = cfg.Farm.PublicURL.URL()
	}
	return d.Handler()
}

// releaseKeys are those that the release of the agent may be signed with; none while
// there is no release.
func releaseKeys(folder *release.Folder) (list []string) {
	latest, err := folder.Release()
	if err != nil {
		return nil
	}
	for _, key := range latest.Keys {
		list = append(list, release.FormatKey(key))
	}
	return list
}

// forwards reports whether what a proxy says of the caller's address is believed: a
// gateway of the farm is one.
func (c Config) forwards(peer netip.Addr) bool {
	return c.TrustedProxies.Contains(peer) || c.Farm.TrustedProxies.Contains(peer)
}
