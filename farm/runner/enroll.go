package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"svc/farm/wire"
)

const registrations = "/api/v1/farm/registrations"

// Enrollment is what a machine becomes a runner with.
type Enrollment struct {
	URL       string // of the farm
	Token     string // is used once, and kept nowhere
	ServerCA  string // file of a private authority, or none
	Name      string
	Labels    []string
	Capacity  int
	Sandboxes []string
}

type registration struct {
	RunnerID    string    `json:"runnerId"`
	WorkspaceID string    `json:"workspaceId"`
	Name        string    `json:"name"`
	Certificate string    `json:"certificate"`
	Serial      string    `json:"serial"`
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	AgentURL    string    `json:"agentUrl"`
	ReleaseKeys []string  `json:"releaseKeys"`
}

type agent struct {
	Version   string   `json:"version"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Protocols []string `json:"protocols"`
	Sandboxes []string `json:"sandboxes"`
}

// enrolTries are as many as the service grants an address in a minute, about.
const enrolTries = 6

// Enroll makes a key, has it certified with the token, and keeps both in the folder. An
// answer that was lost is asked for again with the same key, by the next call too.
func Enroll(ctx context.Context, f Folder, e Enrollment) (id Identity, err error) {
	if _, err := f.Identity(); !errors.Is(err, ErrNotEnrolled) {
		return id, errors.Join(ErrEnrolled, err)
	}
	roots, text, err := readAuthority(e.ServerCA)
	if err != nil {
		return id, err
	}
	l, err := newLink(e.URL, roots, nil)
	if err != nil {
		return id, err
	}
	defer l.close()
	if err := f.Make(); err != nil {
		return id, err
	}
	if text != nil {
		if err := f.replace(authorityFile, text); err != nil {
			return id, err
		}
	}
	key, err := f.pendingKey()
	if err != nil {
		return id, err
	}
	csr, err := request(key, e.Name)
	if err != nil {
		return id, err
	}
	r, err := register(ctx, l, e, csr)
	if err != nil {
		return id, err
	}
	c, err := f.saveCredentials(key, r.Certificate)
	if err != nil {
		return id, err
	}
	id = Identity{
		URL: e.URL, AgentURL: r.AgentURL, RunnerID: r.RunnerID, WorkspaceID: r.WorkspaceID, Name: r.Name, Labels: e.Labels,
		Capacity: max(e.Capacity, 1), Serial: r.Serial, NotBefore: c.Leaf.NotBefore, NotAfter: c.Leaf.NotAfter, ReleaseKeys: r.ReleaseKeys,
	}
	if err := f.saveIdentity(id); err != nil {
		return id, err
	}
	return id, os.Remove(f.path(pendingFile))
}

// register asks until there is an answer that is one.
func register(ctx context.Context, l *link, e Enrollment, csr string) (r registration, err error) {
	in := map[string]any{
		"token": e.Token, "csr": csr, "labels": append([]string{}, e.Labels...), "capacity": max(e.Capacity, 1),
		"agent": agent{Version, runtime.GOOS, runtime.GOARCH, []string{wire.Version}, append([]string{}, e.Sandboxes...)},
	}
	if e.Name != "" {
		in["name"] = e.Name
	}
	for try := range enrolTries {
		if err = l.ask(ctx, "POST", registrations, in, &r); err == nil || !passing(err) {
			return r, err
		}
		if waitFor(ctx, time.Duration(1+try)*time.Second+rand.N(time.Second)) != nil {
			return r, err
		}
	}
	return r, err
}

// passing reports whether an error may be another one in a while.
func passing(err error) bool {
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.Status == 429 || refused.Status >= 500
	}
	var untrusted *tls.CertificateVerificationError
	return !errors.As(err, &untrusted)
}

// waitFor waits, unless ctx ends first.
func waitFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", ctx.Err())
	}
}

// renewAt is when to renew a certificate: at two thirds of its life, a tenth of it
// earlier or later, so that many machines that were enrolled together do not come together.
// spread is between -1 and 1.
func renewAt(notBefore, notAfter time.Time, spread float64) time.Time {
	life := notAfter.Sub(notBefore)
	return notBefore.Add(time.Duration(float64(life) * (2.0/3 + spread/10)))
}

// renew has a new key certified and uses it.
func renew(ctx context.Context, f Folder, l *link) (id Identity, err error) {
	if id, err = f.Identity(); err != nil {
		return id, err
	}
	key, err := newKey()
	if err != nil {
		return id, err
	}
	csr, err := request(key, id.Name)
	if err != nil {
		return id, err
	}
	var r registration
	if err := l.ask(ctx, "POST", registrations+"/renew", map[string]string{"csr": csr}, &r); err != nil {
		return id, err
	}
	c, err := f.saveCredentials(key, r.Certificate)
	if err != nil {
		return id, err
	}
	l.use(c)
	id.Serial, id.NotBefore, id.NotAfter = r.Serial, c.Leaf.NotBefore, c.Leaf.NotAfter
	if r.AgentURL != "" {
		id.AgentURL = r.AgentURL
	}
	if len(r.ReleaseKeys) > 0 {
		id.ReleaseKeys = r.ReleaseKeys
	}
	return id, f.saveIdentity(id)
}
