package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/release"
	"svc/http/farm"
	"svc/http/limit"
	restfarm "svc/http/rest/farm"
	"svc/http/rest/jobs"
	"svc/metrics"
	"svc/projections/farmviews"
	"svc/vault"
)

// enrollmentsPerMinute limits registrations from one address and, separately, those with one token.
const enrollmentsPerMinute = 10

// newFarm returns the server for build machines. Without a farm it answers that the farm is off.
func newFarm(cfg Config, p parts, perCaller *limit.Limit, m *metrics.Metrics, log *slog.Logger) (*farm.Server, error) {
	perAddress, err := limit.PerMinute(min(enrollmentsPerMinute, cfg.RateLimit))
	if err != nil {
		return nil, fmt.Errorf("set limit of enrollments: %w", err)
	}
	perToken, err := limit.PerMinute(min(enrollmentsPerMinute, cfg.RateLimit))
	if err != nil {
		return nil, fmt.Errorf("set limit of enrollments with a token: %w", err)
	}
	m.Limit("enrollment", perAddress.Refused)
	m.Limit("enrollment_token", perToken.Refused)
	c := farm.Config{
		Enabled: cfg.farmOn(), Commands: p.commands, Runners: farmviews.Runners{DB: p.db.Pool},
		Secrets: vault.Secrets{DB: p.db.Pool, Ring: p.ring}, Header: string(cfg.Farm.ClientCertHeader), Dispatcher: p.dispatcher,
		Limit: perCaller, EnrollmentLimit: perAddress, TokenEnrollmentLimit: perToken,
		Artifacts: p.artifacts, ArtifactMaxJobBytes: cfg.Farm.ArtifactMaxJobBytes, ArtifactLimit: p.daily.artifacts,
		ReleaseKeys: func() []string { return releaseKeys(p.releases) }, Now: time.Now, Log: log,
	}
	if len(cfg.Farm.TrustedProxies) > 0 {
		c.TrustedProxy = cfg.Farm.TrustedProxies.Contains
	}
	if !cfg.Farm.PublicURL.IsZero() {
		c.PublicURL = cfg.Farm.PublicURL.URL()
	}
	return farm.New(c), nil
}

// farmRoutes returns what the farm's routes for people need.
func farmRoutes(cfg Config, p parts, machines *farm.Server) (f restfarm.Config, err error) {
	f = restfarm.Config{Vault: p.secrets, On: cfg.farmOn(), Ready: cfg.farmReady(p.releases), Authority: machines.Authority}
	if !cfg.Farm.PublicURL.IsZero() {
		f.PublicURL = strings.TrimSuffix(cfg.Farm.PublicURL.Reveal(), "/")
	}
	f.GatewayCA, err = cfg.gatewayCA()
	return f, err
}

// jobRoutes returns what the routes of jobs need.
func jobRoutes(cfg Config, p parts) jobs.Config {
	c := jobs.Config{Logs: p.logs, LogDays: cfg.Farm.LogDays, ArtifactDays: cfg.Farm.ArtifactDays}
	if p.artifacts != nil {
		c.OpenArtifact = func(ctx context.Context, workspace, job, artifact events.ID) (io.ReadSeekCloser, error) {
			return artifacts.Open(ctx, p.artifacts, workspace, job, artifact)
		}
	}
	return c
}

// gatewayCA returns the certificates in SVC_FARM_CA_FILE, or none if that is not set. Whatever else is in the file, such
// as a key, is left out.
func (c Config) gatewayCA() (list []*x509.Certificate, err error) {
	if c.Farm.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Farm.CAFile)
	if err != nil {
		return nil, fmt.Errorf("SVC_FARM_CA_FILE: %w", err)
	}
	for block, more := pem.Decode(text); block != nil; block, more = pem.Decode(more) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("SVC_FARM_CA_FILE: %s: %w", c.Farm.CAFile, err)
		}
		list = append(list, certificate)
	}
	if len(list) == 0 || len(list) > maxCertificates {
		return nil, fmt.Errorf("SVC_FARM_CA_FILE: %s has %d certificates in PEM, want 1 to %d", c.Farm.CAFile, len(list), maxCertificates)
	}
	return list, nil
}

// maxCertificates bounds the command that carries them: those of a CA, and of the one that takes its place.
const maxCertificates = 4

// farmReady returns a function that lists which settings needed for enrolling machines are set, and
// which are missing.
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

// openArtifacts opens the store in SVC_ARTIFACT_STORE, or returns nil if that is not set.
func (c Config) openArtifacts(onClose func(func())) (artifacts.Store, error) {
	if c.Farm.ArtifactStore == "" {
		return nil, nil
	}
	d, err := artifacts.OpenDirectory(c.Farm.ArtifactStore)
	if err != nil {
		return nil, fmt.Errorf("SVC_ARTIFACT_STORE: %w", err)
	}
	onClose(func() { _ = d.Close() })
	return d, nil
}

// releases opens the folder of releases.
func (c Config) releases() (*release.Folder, error) {
	keys, err := release.ParseKeys(c.Farm.ReleaseKeys)
	if err != nil {
		return nil, fmt.Errorf("SVC_FARM_RELEASE_KEYS is malformed: %w", err)
	}
	return release.NewFolder(c.Farm.ReleasesDir, keys), nil
}

// downloads returns the handler of the installer and the releases. It warns at the start if
// something prevents installing runners, because the first request may come days later.
func downloads(cfg Config, folder *release.Folder, log *slog.Logger) http.Handler {
	if _, missing := cfg.farmReady(folder)(); cfg.farmOn() && len(missing) > 0 {
		log.Warn("no runner can be enrolled", "missing", missing)
	}
	d := farm.Releases{Enabled: cfg.farmOn(), Folder: folder, Log: log}
	if !cfg.Farm.PublicURL.IsZero() {
		d.PublicURL = cfg.Farm.PublicURL.URL()
	}
	return d.Handler()
}

// releaseKeys returns the keys with which the runner's release may be signed, or none if there is
// no release.
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

// trustsForwarded reports whether forwarded client addresses of a peer are trusted. The farm's gateways
// are trusted.
func (c Config) trustsForwarded(peer netip.Addr) bool {
	return c.TrustedProxies.Contains(peer) || c.Farm.TrustedProxies.Contains(peer)
}
