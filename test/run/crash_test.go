//go:build linux && !race

package run

import (
	"fmt"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/address"
)

// TestInterruptedSeedingStartsOver kills svc-db while it writes the demonstration data. Svc runs as
// a user without privileges.
func TestInterruptedSeedingStartsOver(t *testing.T) {
	t.Parallel()
	s := newInstallation(t)
	uid := s.asOrdinaryUser()
	svc := s.start().waitForOutput("Successfully applied")
	seeding := descendant(t, svc.pid(), "svc-db")
	half := s.connect("svc_seeding")
	require.Eventually(t, func() bool {
		var events int
		return half.QueryRow(t.Context(), `select count(*) from events`).Scan(&events) == nil && events > 100
	}, waitLimit, 5*time.Millisecond)
	there := processTree(svc.pid())
	require.NoError(t, syscall.Kill(seeding.pid, syscall.SIGKILL))
	code, text := svc.wait()
	require.Equal(t, 1, code)
	require.Contains(t, text, "svc-db: signal: killed")
	requireGone(t, there, s.data)
	require.NoFileExists(t, s.file("dev.json"))
	require.NoFileExists(t, s.file("demo.json"))

	svc = s.start().waitForOutput(runningBanner)
	for _, program := range []string{"svc-engine", "svc-rest", "postgres"} {
		descendant(t, svc.pid(), program)
	}
	for _, b := range processTree(svc.pid()) {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", b.pid))
		if os.IsNotExist(err) { // worker processes of PostgreSQL are short-lived
			continue
		}
		require.NoError(t, err)
		require.Equal(t, uid, info.Sys().(*syscall.Stat_t).Uid, b)
	}
	d := s.dev()
	requireReady(t, d.RestURL)
	for _, a := range d.ServiceAccounts {
		requireScopes(t, d.RestURL, a)
	}
	requireSignsIn(t, d.RestURL, d.owner(t))
	whole := s.connect("svc")
	require.Equal(t, [][]any{{"acme"}, {"globex"}},
		queryRows(t, whole, `select slug from workspaces where slug in ('acme', 'globex') order by 1`))
	require.Empty(t, queryRows(t, whole, `select datname from pg_database where datname = 'svc_seeding'`))
	s.stop(svc)
}

// asOrdinaryUser makes svc run as a user without privileges: as the user nobody if the test runs as
// root. It returns the user's id.
func (s *installation) asOrdinaryUser() uint32 {
	uid := uint32(os.Geteuid())
	if uid != 0 {
		return uid
	}
	const nobody = 65534
	s.user = &syscall.Credential{Uid: nobody, Gid: nobody}
	require.NoError(s.t, os.Chown(s.home, nobody, nobody))
	s.environ = append(s.environ, "HOME="+s.home, "XDG_CACHE_HOME=", "TMPDIR="+s.home)
	return nobody
}

// TestKillingSvcLosesNothing kills svc with SIGKILL, as the kernel does when memory is short.
func TestKillingSvcLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSeededInstallation(t)
	s.environ = append(s.environ, "SVC_REST_ADDR="+address.Free(t), "SVC_ENGINE_ADDR="+address.Free(t), "SVC_CODEHOST_ADDR="+address.Free(t),
		"SVC_METRICS_ADDR="+address.Free(t), "SVC_GATEWAY_ADDR="+address.Free(t), "SVC_UI_ADDR="+address.Free(t))
	var tokens []string
	for _, name := range []string{"before-the-first", "before-the-second", "at-the-end"} {
		svc := s.start().waitForOutput(runningBanner)
		d := s.dev()
		requireReady(t, d.RestURL)
		for _, token := range tokens {
			requireTokenReads(t, d.RestURL, token)
		}
		requireScopes(t, d.RestURL, d.account(t, "reader"))
		tokens = append(tokens, createAccount(t, signIn(t, d.RestURL, d.owner(t)), d.RestURL, name).Token)
		there := processTree(svc.pid())
		require.Greater(t, len(there), 4, "svc, PostgreSQL with its processes, the engine, the REST service")
		svc.kill()
		requireGone(t, there, s.data)
	}
}

// TestDeathOfOneProgramStopsAll kills each program in turn: svc stops all others, and its next start has all data.
func TestDeathOfOneProgramStopsAll(t *testing.T) {
	t.Parallel()
	s := newSeededInstallation(t)
	svc := s.start().waitForOutput(runningBanner)
	for _, name := range []string{"svc-rest", "svc-codehost", "svc-engine", "svc-ui", "svc-gateway", "postgres"} {
		d := s.dev()
		account := createAccount(t, signIn(t, d.RestURL, d.owner(t)), d.RestURL, "before-"+name)
		there := processTree(svc.pid())
		require.NoError(t, syscall.Kill(descendant(t, svc.pid(), name).pid, syscall.SIGKILL))
		code, text := svc.wait()
		require.Equal(t, 1, code)
		require.Regexp(t, `(svc-rest|svc-codehost|svc-engine|svc-ui|svc-gateway|PostgreSQL) ended by itself`, text)
		requireGone(t, there, s.data)

		svc = s.start().waitForOutput(runningBanner)
		byToken(account.Token).expect(t, http.StatusOK, "GET", s.dev().RestURL+"/api/v1/runs?status=active", nil)
	}
	s.stop(svc)
}
