package runner

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/identity"
	"svc/farm/wire"
)

func TestEnroll(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := identity.Folder(filepath.Join(t.TempDir(), "data"))
	ca := f.caFile()
	e := identity.Enrollment{URL: f.server.URL, Token: "tok_enr_secret", ServerCA: ca, Name: "builder-1", Labels: []string{"disk=ssd"}}
	// The first answer is lost.
	n := 0
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		n++
		if n > 1 {
			return false
		}
		f.register(httptest.NewRecorder(), r)
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.Close()
		return true
	}
	id, err := identity.Enroll(t.Context(), folder, e)
	require.NoError(t, err)
	require.Equal(t, "builder-1", id.Name)
	require.True(t, strings.HasPrefix(id.AgentURL, "wss://"))
	require.Len(t, f.csrKeys, 1, "the same key asks again")
	require.EqualValues(t, 2, f.issued)
	for _, name := range []string{identity.CredentialsFile, identity.IdentityFile, identity.AuthorityFile} {
		info, err := os.Stat(folder.Path(name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
		text, err := os.ReadFile(folder.Path(name))
		require.NoError(t, err)
		require.NotContains(t, string(text), "tok_enr_secret")
	}
	require.NoFileExists(t, folder.Path(identity.PendingFile))
	_, err = identity.Enroll(t.Context(), folder, e)
	require.ErrorIs(t, err, identity.ErrEnrolled)

	revokeErr, err := folder.Uninstall(t.Context(), false)
	require.NoError(t, errors.Join(revokeErr, err))
	require.True(t, f.deregistered)
	require.NoDirExists(t, string(folder))
	revokeErr, err = folder.Uninstall(t.Context(), false)
	require.NoError(t, err, "twice")
	require.ErrorIs(t, revokeErr, identity.ErrNotEnrolled)
}

// A runner that can never work again is enrolled again over its old identity, which is kept. One that
// is still valid is not, and the token is not spent.
func TestEnrollAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code    string // with which the farm refuses the runner
		expired bool
		want    string // part of the error
	}{
		"revoked":                    {"runner_revoked", false, ""},
		"retired":                    {"runner_retired", false, ""},
		"expired":                    {"", true, ""},
		"still good":                 {"", false, "still knows"},
		"suspended":                  {"runner_suspended", false, "runner_suspended"},
		"the proxy drops the header": {"runner_certificate_required", false, "runner_certificate_required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			if c.expired {
				f.lifetime = -time.Millisecond
			}
			folder := f.enrolled()
			before, err := folder.Identity()
			require.NoError(t, err)
			f.lifetime = time.Hour
			f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
				if c.code == "" || !strings.HasSuffix(r.URL.Path, "/self") {
					return false
				}
				refuseWith(w, 403, c.code)
				return true
			}
			again, err := identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL, Token: "tok_enr_second", Name: "builder-1"})
			if c.want != "" {
				require.ErrorIs(t, err, identity.ErrEnrolled)
				require.ErrorContains(t, err, c.want)
				require.EqualValues(t, 1, f.issued, "the token is not spent")
				after, err := folder.Identity()
				require.NoError(t, err)
				require.Equal(t, before, after)
				return
			}
			require.NoError(t, err)
			require.NotEqual(t, before.Serial, again.Serial)
			require.Len(t, f.csrKeys, 2, "with a new key")
			kept, err := os.ReadFile(folder.Path(identity.IdentityFile + ".old"))
			require.NoError(t, err)
			require.Contains(t, string(kept), before.Serial)
			require.FileExists(t, folder.Path(identity.CredentialsFile+".old"))
			_, err = folder.Credentials()
			require.NoError(t, err)
			_, err = folder.Uninstall(t.Context(), false)
			require.NoError(t, err)
		})
	}
}

// A refused token leaves the old identity as it is.
func TestRefusedEnrollmentAgain(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.lifetime = -time.Millisecond
	folder := f.enrolled()
	f.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		refuseWith(w, 401, "enrollment_invalid")
		return true
	}
	_, err := identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL})
	require.ErrorContains(t, err, "enrollment_invalid")
	_, err = folder.Identity()
	require.NoError(t, err)
	_, err = folder.Credentials()
	require.NoError(t, err)
}

// The authority that is named replaces the folder's, even if the runner is still valid.
func TestEnrollAgainReplacesAuthority(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	good, err := os.ReadFile(folder.Path(identity.AuthorityFile))
	require.NoError(t, err)
	next := filepath.Join(t.TempDir(), "next.pem")
	require.NoError(t, os.WriteFile(next, append([]byte("# the next one\n"), good...), 0o600))
	_, err = identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL, ServerCA: next})
	require.ErrorIs(t, err, identity.ErrEnrolled)
	text, err := os.ReadFile(folder.Path(identity.AuthorityFile))
	require.NoError(t, err)
	require.Contains(t, string(text), "# the next one")
}

// An enrollment that did not succeed leaves no authority behind for one with the machine's authorities.
func TestEnrollDropsAuthority(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := identity.Folder(filepath.Join(t.TempDir(), "data"))
	f.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		refuseWith(w, 401, "enrollment_invalid")
		return true
	}
	_, err := identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL, ServerCA: f.caFile()})
	require.ErrorContains(t, err, "enrollment_invalid")
	require.FileExists(t, folder.Path(identity.AuthorityFile))
	_, err = identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL})
	require.ErrorContains(t, err, "certificate", "the machine does not trust the farm")
	require.NoFileExists(t, folder.Path(identity.AuthorityFile))
}

func TestRefusedEnrollment(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := identity.Folder(filepath.Join(t.TempDir(), "data"))
	ca := f.caFile()
	for _, url := range []string{"http://farm.example", "ftp://farm.example", "https://", "https://u:p@farm.example", "farm.example",
		"https://farm.example?a=b"} {
		_, err := identity.Enroll(t.Context(), folder, identity.Enrollment{URL: url, ServerCA: ca})
		require.ErrorContains(t, err, "https://host", url)
	}
	_, err := identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL, ServerCA: filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, os.ErrNotExist)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("x"), 0o600))
	_, err = identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL, ServerCA: empty})
	require.ErrorContains(t, err, "no certificate in PEM")
	_, err = identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL})
	require.ErrorContains(t, err, "certificate", "the server's authority is unknown")

	f.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		refuseWith(w, 401, "enrollment_invalid")
		return true
	}
	_, err = identity.Enroll(t.Context(), folder, identity.Enrollment{URL: f.server.URL, ServerCA: ca})
	var refused *identity.Refusal
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "enrollment_invalid", refused.Code)
	_, err = folder.Identity()
	require.ErrorIs(t, err, identity.ErrNotEnrolled)
}

// The certificate is replaced before it expires, and never used again after its successor.
func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.lifetime = 3 * time.Second
	folder := f.enrolled()
	before, err := folder.Identity()
	require.NoError(t, err)
	f.lifetime = time.Hour
	r := start(t, folder)
	require.Eventually(t, func() bool { return !r.s.status().NotAfter.Equal(before.NotAfter) }, waitLimit, 10*time.Millisecond)
	// The first connection may have been dialed with either certificate.
	require.Eventually(t, f.check(func() bool { return len(f.conns) > 0 }), waitLimit, 10*time.Millisecond)
	f.cutAll()
	after, err := folder.Identity()
	require.NoError(t, err)
	require.NotEqual(t, before.Serial, after.Serial)
	require.Eventually(t, f.check(func() bool { return len(f.serials) > 0 && f.serials[len(f.serials)-1] == after.Serial }), waitLimit,
		10*time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.csrKeys, 2, "with a new key")
	require.NotContains(t, strings.Join(f.serials, " "), after.Serial+" "+before.Serial)
}

func TestRenewalTime(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	end := begin.Add(30 * time.Hour)
	require.Equal(t, begin.Add(20*time.Hour), identity.RenewalTime(begin, end, 0).Round(time.Second))
	require.Equal(t, begin.Add(17*time.Hour), identity.RenewalTime(begin, end, -1).Round(time.Second))
	require.Equal(t, begin.Add(23*time.Hour), identity.RenewalTime(begin, end, 1).Round(time.Second))
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, limit := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute,
		70: time.Minute} {
		var most time.Duration
		for range 1000 {
			most = max(most, backoff(failures))
		}
		require.LessOrEqual(t, most, limit+1)
		require.Greater(t, most, limit*9/10, "all of the range is used")
	}
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	find := func(what string) Finding {
		t.Helper()
		for _, d := range Diagnose(t.Context(), folder, "/proc/self/exe", nil) {
			if d.What == what {
				return d
			}
		}
		require.Fail(t, "no finding", what)
		return Finding{}
	}
	for _, what := range []string{"disk", "sandbox none", "enrollment", "certificate", "farm", "client certificate", "clock"} {
		require.True(t, find(what).OK, what)
	}
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		r.TLS.PeerCertificates = nil // a proxy drops it
		return false
	}
	require.False(t, find("client certificate").OK)
	require.Contains(t, find("client certificate").Text, "SVC_FARM_CLIENT_CERT_HEADER")
	for reason, want := range map[string]string{
		"certificate_expired": "has expired", "gateway_not_trusted": "SVC_FARM_TRUSTED_PROXIES",
		"certificate_invalid": "arrives, but is not valid",
	} {
		f.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
			answer(w, 401, map[string]any{"code": "runner_certificate_required", "details": map[string]any{"reason": reason}})
			return true
		}
		require.False(t, find("client certificate").OK)
		require.Contains(t, find("client certificate").Text, want)
	}
	f.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "b", "serverTime": time.Now().Add(-time.Hour)})
		return true
	}
	require.False(t, find("clock").OK)
	f.server.Close()
	require.False(t, find("farm").OK)
	folder = identity.Folder(t.TempDir())
	require.False(t, find("enrollment").OK)
}

// A connection that is cut again and again is noticed, though the runner is online in between.
func TestConnectionsThatAreCutAreCounted(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled(), reconnectAtOnce)
	for n := range manyLost {
		require.Empty(t, r.s.status().Unsteady())
		require.Eventually(t, func() bool {
			st := r.s.status()
			return st.Lost == n && !st.Connected.IsZero()
		}, waitLimit, time.Millisecond)
		f.cutAll()
	}
	require.Eventually(t, func() bool { return r.s.status().Lost == manyLost }, waitLimit, time.Millisecond)
	for _, d := range Diagnose(t.Context(), r.s.cfg.Folder, "/proc/self/exe", nil) {
		if d.What == "connection" {
			require.False(t, d.OK)
			require.Contains(t, d.Text, "lost 3 times in the last ten minutes")
			return
		}
	}
	require.Fail(t, "doctor says nothing of the connection")
}

func TestExpiredCertificateEndsRunner(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.lifetime = -time.Millisecond
	folder := f.enrolled()
	f.refuse = func(w http.ResponseWriter, _ *http.Request) bool { // as nginx does
		http.Error(w, "<html>400 The SSL certificate error</html>", http.StatusBadRequest)
		return true
	}
	err := start(t, folder).wait()
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "enroll the machine anew")
}

// A newerMessage has a type of a newer version of the protocol.
type newerMessage struct{}

func (newerMessage) Type() wire.Type { return "runner.update" }

// Messages that the service should not send have no effect.
func TestUnexpectedMessagesAreIgnored(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled(), reconnectAtOnce)
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	unknown := attemptKey{"019aa100-0f3c-7a51-8c22-5b7d90e1f6a4", 3}
	for _, m := range []wire.Message{
		wire.Ack{Upto: 99}, wire.Stop{}, newerMessage{}, wire.Error{Code: wire.CodeGap, Expected: 4},
		wire.Closing{ReconnectAfterMs: 1}, wire.Welcome{}, wire.HeartbeatAck{Seq: 999,
			Held: []wire.Verdict{{Job: unknown.jobID, Epoch: 3, Verdict: wire.StopJob}}},
	} {
		f.send(m, unknown)
	}
	f.mu.Lock()
	f.conns[0].send(wire.Assign{Sandbox: wire.Sandbox{Kind: "none"}}, attemptKey{"../../etc", 1})
	f.mu.Unlock()
	require.Eventually(t, f.check(func() bool { return len(f.declined) == 1 }), waitLimit, time.Millisecond)
	f.ended(f.assign(wire.Assign{Steps: steps("true")}))
	r.requireNoJobs()
}
