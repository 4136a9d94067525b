package runner

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/atomicfile"
	"svc/farm/runner/executor"
	"svc/farm/runner/identity"
	"svc/filelock"
)

// An uploading is a client of an enrolled runner with an upload in progress, whose certificate the
// farm has seen.
type uploading struct {
	*farm
	folder  identity.Folder
	client  *identity.Client
	before  identity.Identity
	release func() // lets the upload end
	ended   chan error
}

func newUploading(t *testing.T) *uploading {
	f := newFarm(t)
	u := &uploading{farm: f, folder: f.enrolled(), ended: make(chan error, 1)}
	var err error
	u.before, err = u.folder.Identity()
	require.NoError(t, err)
	u.client, err = identity.OpenClient(u.folder, u.before)
	require.NoError(t, err)
	t.Cleanup(u.client.Close)
	begun, proceed := make(chan struct{}), make(chan struct{})
	u.release = sync.OnceFunc(func() { close(proceed) })
	t.Cleanup(u.release)
	f.uploading = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		close(begun)
		select {
		case <-proceed:
		case <-r.Context().Done():
		}
		answer(w, 200, map[string]any{"state": "complete"})
		return true
	}
	go func() {
		form, err := newUploadForm(t.TempDir(), executor.Manifest{}, nil)
		if err == nil {
			var a uploadAnswer
			err = u.client.Call(context.Background(), "POST", "/api/v1/farm/jobs/1/artifacts", form.contentType, form, form.size, &a)
		}
		u.ended <- err
	}()
	<-begun
	return u
}

// ask makes a request, and returns the serial number of the certificate that was used.
func (u *uploading) ask() string {
	u.t.Helper()
	require.NoError(u.t, u.client.CallJSON(u.t.Context(), "GET", identity.RegistrationsPath+"/self", nil, nil))
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.serials[len(u.serials)-1]
}

// renew begins a renewal and waits until the farm has issued the certificate.
func (u *uploading) renew(ctx context.Context) (renewed chan error) {
	u.t.Helper()
	renewed = make(chan error, 1)
	go func() {
		_, err := identity.Renew(ctx, u.folder, u.client)
		renewed <- err
	}()
	require.Eventually(u.t, func() bool {
		_, err := u.folder.ReadCredentials(identity.RenewedFile)
		id, bad := u.folder.Identity()
		return err == nil && bad == nil && id.Serial != u.before.Serial
	}, waitLimit, time.Millisecond)
	return renewed
}

// An upload of minutes delays neither the renewal of the certificate nor, while the new one waits for
// its end, other requests. No certificate is used after its successor.
func TestRenewalDuringUpload(t *testing.T) {
	t.Parallel()
	u := newUploading(t)
	renewed := u.renew(t.Context())
	require.Equal(t, u.before.Serial, u.ask(), "the new one is not used while the upload is in progress")
	c, err := u.folder.Credentials()
	require.NoError(t, err)
	require.Equal(t, u.before.Serial, fmt.Sprintf("%x", c.Leaf.SerialNumber), "nor by another process")
	require.Empty(t, renewed)
	u.release()
	require.NoError(t, <-u.ended)
	require.NoError(t, <-renewed)
	after, err := u.folder.Identity()
	require.NoError(t, err)
	require.Equal(t, after.Serial, u.ask())
	c, err = u.folder.Credentials()
	require.NoError(t, err)
	require.Equal(t, after.Serial, fmt.Sprintf("%x", c.Leaf.SerialNumber))
	require.NoFileExists(t, u.folder.Path(identity.RenewedFile))
	u.mu.Lock()
	defer u.mu.Unlock()
	require.Equal(t, []string{u.before.Serial, after.Serial}, slices.Compact(slices.Clone(u.serials)))
}

// Shortly before the old certificate expires, further requests wait for the new one.
func TestRequestsWaitForNewCertificate(t *testing.T) {
	t.Parallel()
	u := newUploading(t)
	ctx, stop := context.WithCancel(t.Context())
	renewed := u.renew(ctx)
	stop()
	require.ErrorIs(t, <-renewed, context.Canceled)
	c, err := u.folder.ReadCredentials(identity.RenewedFile)
	require.NoError(t, err)
	go func() {
		renewed <- identity.UseRenewed(context.Background(), u.folder, u.client)
	}()
	require.Eventually(t, u.client.Held, waitLimit, time.Millisecond)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, u.client.CallJSON(gone, "GET", identity.RegistrationsPath+"/self", nil, nil), context.Canceled)
	go u.release()
	require.Equal(t, fmt.Sprintf("%x", c.Leaf.SerialNumber), u.ask())
	require.NoError(t, <-u.ended)
	require.NoError(t, <-renewed)
}

// While other processes use the old certificate, a request waits no longer than its caller.
func TestRequestsAreGivenUpWhileCertificateIsInUse(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	id, err := folder.Identity()
	require.NoError(t, err)
	l, err := identity.OpenClient(folder, id)
	require.NoError(t, err)
	c, err := folder.Credentials()
	require.NoError(t, err)
	saving, unused := make(chan struct{}), make(chan struct{})
	proceed := sync.OnceFunc(func() { close(unused) })
	t.Cleanup(proceed)
	replaced, asked := make(chan error, 1), make(chan error, 1)
	go func() {
		replaced <- l.ReplaceCertificate(t.Context(), c, time.Now(), func(context.Context) error {
			close(saving)
			<-unused
			return nil
		})
	}()
	<-saving
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	go func() { asked <- l.CallJSON(gone, "GET", identity.RegistrationsPath+"/self", nil, nil) }()
	require.Eventually(t, func() bool { return len(asked) > 0 }, waitLimit, time.Millisecond)
	require.ErrorIs(t, <-asked, context.Canceled)
	proceed()
	require.NoError(t, <-replaced)
	require.Empty(t, f.serials, "no request was made")
}

// A certificate is not replaced while another process makes a request with it.
func TestRenewalWaitsForOtherProcesses(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	before, err := folder.Identity()
	require.NoError(t, err)
	l, err := identity.OpenClient(folder, before)
	require.NoError(t, err)
	defer l.Close()
	other, err := filelock.Share(string(folder))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	renewed := make(chan error, 1)
	go func() {
		_, err := identity.Renew(ctx, folder, l)
		renewed <- err
	}()
	require.Eventually(t, func() bool {
		id, err := folder.Identity()
		return err == nil && id.Serial != before.Serial
	}, waitLimit, time.Millisecond)
	stop()
	require.ErrorIs(t, <-renewed, context.Canceled)
	c, err := folder.Credentials()
	require.NoError(t, err)
	require.Equal(t, before.Serial, fmt.Sprintf("%x", c.Leaf.SerialNumber))
	require.NoError(t, other.Unlock())
	after, err := identity.Renew(t.Context(), folder, l)
	require.NoError(t, err)
	c, err = folder.Credentials()
	require.NoError(t, err)
	require.Equal(t, after.Serial, fmt.Sprintf("%x", c.Leaf.SerialNumber))
}

// Processes other than the supervisor keep it from replacing the certificate that they use.
func TestOtherProcessesKeepCertificate(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	var replaced []error
	f.refuse = func(http.ResponseWriter, *http.Request) bool {
		lock, err := filelock.TryExclusive(string(folder))
		if err == nil {
			_ = lock.Unlock()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		replaced = append(replaced, err)
		return false
	}
	Diagnose(t.Context(), folder, "/proc/self/exe", nil)
	_, err := identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL})
	require.ErrorIs(t, err, identity.ErrEnrolled)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, replaced, 2)
	for _, err := range replaced {
		var held *filelock.HeldError
		require.ErrorAs(t, err, &held)
	}
}

// A supervisor that was made before another one renewed the certificate does not use the old one.
func TestCertificateIsReadUnderLock(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	s, err := NewSupervisor(t.Context(), Config{Folder: folder, Program: "/proc/self/exe", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	id, err := folder.Identity()
	require.NoError(t, err)
	l, err := identity.OpenClient(folder, id)
	require.NoError(t, err)
	defer l.Close()
	after, err := identity.Renew(t.Context(), folder, l)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, f.check(func() bool { return len(f.serials) > 0 }), waitLimit, time.Millisecond)
	stop()
	require.NoError(t, <-done)
	require.Equal(t, after.Serial, f.serials[0])
}

// The identity of a renewal may arrive while the runner connects, which the race detector checks.
func TestRenewalWhileConnecting(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	for greeted := f.check(func() bool { return len(f.hellos) > 0 }); !greeted(); {
		r.s.update(func() { r.s.identity.Labels = []string{"disk=ssd"} })
	}
}

// A farm, or a proxy before it, that begins to answer and stops does not keep a request for ever.
func TestStalledAnswerEndsRequest(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	id, err := folder.Identity()
	require.NoError(t, err)
	l, err := identity.OpenClient(folder, id)
	require.NoError(t, err)
	defer l.Close()
	l.Timeout = 200 * time.Millisecond
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // as in TestInterruptedUninstall
	}
	require.ErrorIs(t, l.CallJSON(t.Context(), "GET", identity.RegistrationsPath+"/self", nil, nil), context.DeadlineExceeded)
}

// A runner that ends before it could use its new certificate uses it when it starts again.
func TestRestartUsesRenewedCertificate(t *testing.T) {
	t.Parallel()
	u := newUploading(t)
	ctx, stop := context.WithCancel(t.Context())
	renewed := u.renew(ctx)
	stop()
	require.ErrorIs(t, <-renewed, context.Canceled)
	u.release()
	require.NoError(t, <-u.ended)
	id, err := u.folder.Identity()
	require.NoError(t, err)
	start(t, u.folder)
	require.Eventually(t, u.check(func() bool { return u.serials[len(u.serials)-1] == id.Serial }), waitLimit, time.Millisecond)
	require.NoFileExists(t, u.folder.Path(identity.RenewedFile))
}

// If a renewal is interrupted before it can store the identity, as by a full disk, the identity is that of
// the new certificate nevertheless, and is not replaced by another enrollment once the old one expires.
func TestIdentityIsThatOfNewestCertificate(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.lifetime = -time.Millisecond // it has expired
	folder := f.enrolled()
	before, err := folder.Identity()
	require.NoError(t, err)
	l, err := identity.OpenClient(folder, before)
	require.NoError(t, err)
	defer l.Close()
	f.lifetime = time.Hour
	check := func(certificate string) {
		t.Helper()
		c, err := folder.ReadCredentials(certificate)
		require.NoError(t, err)
		after, err := folder.Identity()
		require.NoError(t, err)
		require.NotEqual(t, before.Serial, after.Serial)
		require.Equal(t, c.Leaf.SerialNumber.Text(16), after.Serial)
		require.Equal(t, c.Leaf.NotBefore, after.NotBefore)
		require.Equal(t, c.Leaf.NotAfter, after.NotAfter)
		_, err = identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL, Token: "tok_enr_second"})
		require.ErrorIs(t, err, identity.ErrEnrolled)
	}
	full := filepath.Join(folder.Path(identity.IdentityFile+atomicfile.TempSuffix), "full")
	require.NoError(t, os.MkdirAll(full, 0o700)) // so that the file cannot be replaced
	_, err = identity.Renew(t.Context(), folder, l)
	require.ErrorContains(t, err, identity.IdentityFile)
	check(identity.RenewedFile)

	renewed, err := identity.Renew(t.Context(), folder, l)
	require.NoError(t, err)
	check(identity.CredentialsFile)
	require.Equal(t, f.issued, int64(2), "the same certificate")
	again, err := folder.Identity()
	require.NoError(t, err)
	require.Equal(t, again, renewed)
}
