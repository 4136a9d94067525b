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
	PublicURL config.URL `env:"SVC_FARM_PUBLIC_URL" schemes:"https" doc:"Public address of the farm gateway. Unset, nobody can enroll a runner."`

	// Commands that enroll a machine carry the certificates to it, so that it trusts the gateway.
	CAFile string `env:"SVC_FARM_CA_FILE" doc:"PEM file with the private CA's certificate that the gateway's certificate is of. Unset, machines trust the gateway by themselves."`

	ReleasesDir string `env:"SVC_FARM_RELEASES_DIR" doc:"Folder of the releases of svc-runner, as make release fills it. Unset or empty, nobody can enroll a runner."`

	// Whoever can write to the folder can also replace the key in it.
	ReleaseKeys []string `env:"SVC_FARM_RELEASE_KEYS" doc:"Public keys that releases are signed with, with commas between, as in the folder's release.pub. Unset, those of that file."`

	// Set it only if the header can reach the service through the gateway alone.
	ClientCertHeader config.HeaderName `env:"SVC_FARM_CLIENT_CERT_HEADER" doc:"Header in which the gateway forwards a runner's certificate, such as X-Svc-Client-Cert. Unset, no runner can connect."`

	TrustedProxies config.CIDRs `env:"SVC_FARM_TRUSTED_PROXIES" doc:"Gateways, as addresses and networks with commas between, from which that header is believed. Unset, from whoever connects."`

	// Logs are in the database, up to 64 MiB for each attempt.
	LogDays int `env:"SVC_JOB_LOG_DAYS" envDefault:"90" doc:"Days after its end that the log of a job is kept. 0 keeps logs for ever."`

	ArtifactDays int `env:"SVC_ARTIFACT_DAYS" envDefault:"90" doc:"Days after the last was stored that the artifacts of a job are kept. 0 keeps them for ever."`

	// All processes must have the same.
	LeaseSeconds int `env:"SVC_JOB_LEASE_SECONDS" envDefault:"90" doc:"Seconds of silence after which a runner's jobs may start elsewhere."`

	// Artifacts are not in the database and need a backup of their own.
	ArtifactStore string `env:"SVC_ARTIFACT_STORE" doc:"Directory for artifacts of jobs, the same for all processes. Unset, none are taken."`

	// The gateway reads the same variable, and must allow slightly larger requests.
	ArtifactMaxJobBytes int64 `env:"SVC_ARTIFACT_MAX_JOB_BYTES" envDefault:"268435456" doc:"Bytes of artifacts that a job may have."`
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
