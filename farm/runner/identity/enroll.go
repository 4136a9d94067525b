package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"svc/atomicfile"
	"svc/farm/release"
	"svc/farm/wire"
)

// RegistrationsPath is where the farm has the registrations of runners.
const RegistrationsPath = "/api/v1/farm/registrations"

// An Enrollment is the input to [Enroll].
type Enrollment struct {
	URL       string // of the farm
	Token     string // single-use; not stored
	ServerCA  string // file with a private authority's certificate, or ""
	Name      string
	Labels    []string
	Capacity  int
	Sandboxes []string
}

type registration struct {
	RunnerID    string   `json:"runnerId"`
	WorkspaceID string   `json:"workspaceId"`
	Name        string   `json:"name"`
	Certificate string   `json:"certificate"`
	AgentURL    string   `json:"agentUrl"`
	ReleaseKeys []string `json:"releaseKeys"`
}

type agentInfo struct {
	Version   string   `json:"version"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Protocols []string `json:"protocols"`
	Sandboxes []string `json:"sandboxes"`
}

// enrolTries is about the number of tries that the service allows an address in a minute.
const enrolTries = 6

// Enroll generates a key, exchanges the token for a certificate, and stores both in the folder. If
// the answer is lost, the next try or call asks again with the same key and gets the same
// certificate. Its error wraps [ErrEnrolled] if the folder has the identity of a runner that still
// counts. The identity of one that does not is kept aside and replaced.
func Enroll(ctx context.Context, f Folder, e Enrollment) (id Identity, err error) {
	roots, text, err := readAuthority(e.ServerCA)
	if err != nil {
		return id, err
	}
	old, err := f.Identity()
	again := !errors.Is(err, ErrNotEnrolled)
	if again {
		if err == nil {
			roots, err = f.checkObsolete(ctx, old, roots, text)
		}
		if err != nil {
			return id, errors.Join(ErrEnrolled, err)
		}
	}
	l, err := newFarmClient(e.URL, roots, nil)
	if err != nil {
		return id, err
	}
	defer l.Close()
	if err := f.Make(); err != nil {
		return id, err
	}
	switch {
	case text != nil:
		err = f.replaceFile(AuthorityFile, text)
	case !again: // the authority of an enrollment that did not succeed
		err = f.remove(AuthorityFile)
	}
	if err != nil {
		return id, err
	}
	key, err := f.pendingKey()
	if err != nil {
		return id, err
	}
	csr, err := newCertificateRequest(key, e.Name)
	if err != nil {
		return id, err
	}
	r, err := register(ctx, l, e, csr)
	if err != nil {
		return id, err
	}
	if again {
		if err := f.setAside(); err != nil {
			return id, err
		}
	}
	if err := f.remove(RenewedFile); err != nil { // of another runner
		return id, err
	}
	c, err := f.saveCredentials(CredentialsFile, key, r.Certificate)
	if err != nil {
		return id, err
	}
	id = Identity{
		URL: e.URL, AgentURL: r.AgentURL, RunnerID: r.RunnerID, WorkspaceID: r.WorkspaceID, Name: r.Name, Labels: e.Labels,
		Capacity: max(e.Capacity, 1), ReleaseKeys: r.ReleaseKeys,
	}
	id.describe(c.Leaf)
	if err := f.saveIdentity(id); err != nil {
		return id, err
	}
	return id, os.Remove(f.Path(PendingFile))
}

// errStillValid says that the runner of the folder's identity is still valid.
var errStillValid = errors.New("the farm still knows this runner, and its certificate has not expired")

// checkObsolete returns nil if the runner of an identity can never work again: its certificate has
// expired, or the farm says that it is revoked or retired. If the farm is reached and roots, whose PEM
// is text, are not nil, they replace the folder's in any case. The roots to reach the farm with are
// returned.
func (f Folder) checkObsolete(ctx context.Context, id Identity, roots *x509.CertPool, text []byte) (*x509.CertPool, error) {
	if roots == nil {
		var err error
		if roots, err = f.authority(); err != nil {
			return nil, err
		}
	}
	if time.Now().After(id.NotAfter) {
		return roots, nil
	}
	lock, err := f.KeepCertificate()
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	c, err := f.Credentials()
	if err != nil {
		return nil, err
	}
	l, err := newFarmClient(id.URL, roots, c)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	err = l.CallJSON(ctx, "GET", RegistrationsPath+"/self", nil, nil)
	var r *Refusal
	switch {
	case errors.As(err, &r) && r.Final():
		return roots, nil
	case err != nil:
		return nil, err
	case text != nil:
		if err := f.replaceFile(AuthorityFile, text); err != nil {
			return nil, err
		}
	}
	return nil, errStillValid
}

// setAside keeps the old identity and credentials under other names. The folder then is as it was
// before it was enrolled first.
func (f Folder) setAside() error {
	for _, name := range []string{CredentialsFile, IdentityFile} {
		err := os.Rename(f.Path(name), f.Path(name+oldSuffix))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("keep the old identity: %w", err)
		}
	}
	return atomicfile.SyncDir(string(f))
}

// register sends the registration, and retries transient errors.
func register(ctx context.Context, l *Client, e Enrollment, csr string) (r registration, err error) {
	in := map[string]any{
		"token": e.Token, "csr": csr, "labels": append([]string{}, e.Labels...), "capacity": max(e.Capacity, 1),
		"agent": agentInfo{release.Version, runtime.GOOS, runtime.GOARCH, []string{wire.Version}, append([]string{}, e.Sandboxes...)},
	}
	if e.Name != "" {
		in["name"] = e.Name
	}
	for try := range enrolTries {
		if err = l.CallJSON(ctx, "POST", RegistrationsPath, in, &r); err == nil || !isTransient(err) {
			return r, err
		}
		select {
		case <-time.After(time.Duration(1+try)*time.Second + rand.N(time.Second)):
		case <-ctx.Done():
			return r, err
		}
	}
	return r, err
}

// isTransient reports whether a later try may succeed.
func isTransient(err error) bool {
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.Status == 429 || refused.Status >= 500
	}
	var untrusted *tls.CertificateVerificationError
	return !errors.As(err, &untrusted)
}

// RenewalTime returns when to renew a certificate: at two thirds of its life, plus or minus a
// tenth, so that machines enrolled together do not renew together. spread is between -1 and 1.
func RenewalTime(notBefore, notAfter time.Time, spread float64) time.Time {
	life := notAfter.Sub(notBefore)
	return notBefore.Add(time.Duration(float64(life) * (2.0/3 + spread/10)))
}

// UseRenewed switches to renewed credentials, if there are some that an earlier process did not come to use.
func UseRenewed(ctx context.Context, f Folder, l *Client) error {
	c, err := f.ReadCredentials(RenewedFile)
	if errors.Is(err, ErrNotEnrolled) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.ReplaceCertificate(ctx, c, time.Now(), f.adoptRenewed)
}

// Renew gets a certificate for a new key, unless one is in the folder that is not used yet, and
// switches to it when no request is in progress.
func Renew(ctx context.Context, f Folder, l *Client) (id Identity, err error) {
	if id, err = f.Identity(); err != nil {
		return id, err
	}
	c, err := f.ReadCredentials(RenewedFile)
	if errors.Is(err, ErrNotEnrolled) {
		id, c, err = requestRenewal(ctx, f, l, id)
	}
	if err != nil {
		return id, err
	}
	return id, l.ReplaceCertificate(ctx, c, lastSwitch(l.Expiry()), f.adoptRenewed)
}

// lastSwitch returns when requests have to wait for a switch to another certificate, given the expiry
// of the present one.
func lastSwitch(expiry time.Time) time.Time { return expiry.Add(-2 * responseTimeout) }

// requestRenewal gets a certificate for a new key, and stores it in the folder.
func requestRenewal(ctx context.Context, f Folder, l *Client, id Identity) (Identity, *tls.Certificate, error) {
	key, err := newKey()
	if err != nil {
		return id, nil, err
	}
	csr, err := newCertificateRequest(key, id.Name)
	if err != nil {
		return id, nil, err
	}
	var r registration
	if err := l.CallJSON(ctx, "POST", RegistrationsPath+"/renew", map[string]string{"csr": csr}, &r); err != nil {
		return id, nil, err
	}
	c, err := f.saveCredentials(RenewedFile, key, r.Certificate)
	if err != nil {
		return id, nil, err
	}
	id.describe(c.Leaf)
	if r.AgentURL != "" {
		id.AgentURL = r.AgentURL
	}
	if len(r.ReleaseKeys) > 0 {
		id.ReleaseKeys = r.ReleaseKeys
	}
	return id, c, f.saveIdentity(id)
}
