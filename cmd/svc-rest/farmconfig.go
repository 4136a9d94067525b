package main

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"unicode"

	"svc/config"
	"svc/farm/release"
)

// FarmConfig has the settings of the build farm. The farm is off while no variable beginning with
// SVC_FARM_ is set.
type FarmConfig struct {
	// Runners use only https and wss, and the gateway's paths begin at the root.
	PublicURL config.URL `env:"SVC_FARM_PUBLIC_URL" schemes:"https" doc:"Public address of the farm gateway. If none of the SVC_FARM_ variables is set, the build farm is off."`

	// Commands that enroll a machine carry the certificates to it, so that it trusts the gateway.
	CAFile string `env:"SVC_FARM_CA_FILE" doc:"PEM file with the private CA of the gateway's certificate, which the command for a new runner then carries. Unset, machines must trust the gateway by themselves."`

	ReleasesDir string `env:"SVC_FARM_RELEASES_DIR" doc:"Folder of svc-runner releases, as written by make release. Unset or empty, runners cannot be enrolled."`

	// Whoever can write to the folder can also replace the key in it.
	ReleaseKeys []string `env:"SVC_FARM_RELEASE_KEYS" doc:"Comma-separated public keys that sign releases. Unset, those in the folder's release.pub, which whoever can write to the folder can replace."`

	// Set it only if the header can reach the service through the gateway alone.
	ClientCertHeader config.HeaderName `env:"SVC_FARM_CLIENT_CERT_HEADER" doc:"Header in which the gateway forwards a runner's certificate, such as X-Svc-Client-Cert. Set it only if the header reaches the service through the gateway alone."`

	TrustedProxies config.CIDRs `env:"SVC_FARM_TRUSTED_PROXIES" doc:"Comma-separated addresses and networks of gateways from which that header and X-Forwarded-For are trusted. Unset, the header is trusted from any peer, with a warning."`

	// Logs are in the database, up to 64 MiB for each attempt.
	LogDays int `env:"SVC_JOB_LOG_DAYS" envDefault:"90" doc:"Days to keep the log of a finished job in the database, at most 36500; then it is answered 410. 0 keeps logs forever."`

	ArtifactDays int `env:"SVC_ARTIFACT_DAYS" envDefault:"90" doc:"Days to keep artifacts of a job after the last one was stored, at most 36500; then they are answered 410. 0 keeps them forever."`

	// All processes must have the same.
	LeaseSeconds int `env:"SVC_JOB_LEASE_SECONDS" envDefault:"90" doc:"Seconds of a runner's silence after which its jobs may start elsewhere, 20 to 3600, the same for all processes."`

	// Artifacts are not in the database and need a backup of their own.
	ArtifactStore string `env:"SVC_ARTIFACT_STORE" doc:"Absolute path of an existing directory for artifacts, on one file system with hard links, shared by all processes. Unset, artifacts are refused."`

	// The gateway reads the same variable, and must allow slightly larger requests.
	ArtifactMaxJobBytes int64 `env:"SVC_ARTIFACT_MAX_JOB_BYTES" envDefault:"268435456" doc:"Bytes of artifacts of one job, at most 1 TiB."`
}

// farmOn reports whether there is a build farm.
func (c Config) farmOn() bool {
	f := c.Farm
	return !f.PublicURL.IsZero() || f.CAFile != "" || f.ReleasesDir != "" || len(f.ReleaseKeys) > 0 ||
		f.ClientCertHeader != "" || len(f.TrustedProxies) > 0
}

// check rejects settings that are well-formed but cannot work.
func (f FarmConfig) check() error {
	switch {
	case !f.PublicURL.IsZero() && !onlyHost(f.PublicURL):
		return errors.New("SVC_FARM_PUBLIC_URL is malformed: want https:// and a host in ASCII, with no path or query")
	case invalidKeys(f.ReleaseKeys):
		return errors.New("SVC_FARM_RELEASE_KEYS is malformed: want keys such as ed25519:gOXG...= with commas between")
	case f.ArtifactStore != "" && !filepath.IsAbs(f.ArtifactStore):
		return errors.New("SVC_ARTIFACT_STORE is malformed: want the whole path of a directory")
	case f.LogDays < 0 || f.LogDays > 36500:
		return errors.New("SVC_JOB_LOG_DAYS is malformed: want 0, which is for ever, or a number of days up to 36500")
	case f.LeaseSeconds < 20 || f.LeaseSeconds > 3600:
		return errors.New("SVC_JOB_LEASE_SECONDS is malformed: want a number of seconds from 20 to 3600")
	case f.ArtifactDays < 0 || f.ArtifactDays > 36500:
		return errors.New("SVC_ARTIFACT_DAYS is malformed: want 0, which is for ever, or a number of days up to 36500")
	case f.ArtifactMaxJobBytes < 1 || f.ArtifactMaxJobBytes > 1<<40:
		return errors.New("SVC_ARTIFACT_MAX_JOB_BYTES is malformed: want 1 or more, and at most a tebibyte")
	}
	return nil
}

func onlyHost(address config.URL) bool {
	u := address.URL()
	return u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && !u.ForceQuery && u.Hostname() != "" &&
		!strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII })
}

func invalidKeys(texts []string) bool {
	_, err := release.ParseKeys(texts)
	return err != nil
}

// warn warns about settings that work but should not stay as they are.
func (f FarmConfig) warn(log *slog.Logger) {
	if f.ClientCertHeader != "" && len(f.TrustedProxies) == 0 {
		log.Warn("runners' certificates are accepted from any peer: SVC_FARM_CLIENT_CERT_HEADER is set, SVC_FARM_TRUSTED_PROXIES is not",
			"header", string(f.ClientCertHeader))
	}
}
