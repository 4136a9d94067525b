package farm

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// renderFarm renders the page of runners at an address for a Viewer.
func renderFarm(t *testing.T, address string, d farmData) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, address, nil)
	r.SetPathValue("workspace", "acme")
	v := &page.Visit{Request: r, Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	v.Workspace.Slug, v.Workspace.You.Role = "acme", client.YouRoleViewer
	var out bytes.Buffer
	require.NoError(t, view(v, d).Render(t.Context(), &out))
	return out.String()
}

func TestRunnersArePaged(t *testing.T) {
	t.Parallel()
	var d farmData
	d.Runners.Total, d.Runners.Items = 130, make([]client.Runner, runnersPerPage)
	first := renderFarm(t, "/w/acme/farm?status=", d)
	require.Contains(t, first, `href="/w/acme/farm?offset=100&amp;status="`)
	require.Contains(t, first, "1 to 100 of 130")
	require.NotContains(t, first, "Previous runners")
	d.Runners.Offset, d.Runners.Items = 100, make([]client.Runner, 30)
	last := renderFarm(t, "/w/acme/farm?offset=100", d)
	require.Contains(t, last, `href="/w/acme/farm?offset=0"`)
	require.Contains(t, last, "101 to 130 of 130")
	require.NotContains(t, last, "More runners")
}

func TestEnrollmentsArePaged(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/w/acme/farm/enrollments", nil)
	r.SetPathValue("workspace", "acme")
	v := &page.Visit{Request: r, Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	v.Workspace.Slug = "acme"
	list := client.ListEnrollment{Total: 130, Offset: 100, Items: make([]client.Enrollment, 30)}
	list.Items[0].Id = "id"
	list.Items[1].Uses, list.Items[1].UsesLeft = 20, 17
	var out bytes.Buffer
	require.NoError(t, enrollmentsView(v, list).Render(t.Context(), &out))
	for _, want := range []string{
		"101 to 130 of 130", "17 of 20 machines left", `href="/w/acme/farm/enrollments"`, `hx-get="/w/acme/farm/enrollments?offset=100"`,
		`action="/w/acme/farm/enrollments/id/withdraw?offset=100"`,
	} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), "More enrollments")
	list.Offset, list.Items = 0, make([]client.Enrollment, 100)
	out.Reset()
	require.NoError(t, enrollmentsView(v, list).Render(t.Context(), &out))
	require.Contains(t, out.String(), `href="/w/acme/farm/enrollments?offset=100"`)
	require.NotContains(t, out.String(), "Previous enrollments")
}

func TestCommandOfAPrivateCA(t *testing.T) {
	t.Parallel()
	render := func(m client.Minted) string {
		r := httptest.NewRequest(http.MethodGet, "/w/acme/farm/enroll", nil)
		v := &page.Visit{Request: r, Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
		var out bytes.Buffer
		require.NoError(t, mintedPart(v, mintedCommand{Minted: m, uses: 1}).Render(t.Context(), &out))
		return out.String()
	}
	unknown := render(client.Minted{Command: "curl one", CommandPrivateCa: "curl --cacert ca.pem two"})
	for _, want := range []string{">curl one<", "cacert ca.pem two", `id="private"`, "SVC_FARM_CA_FILE"} {
		require.Contains(t, unknown, want)
	}
	known := render(client.Minted{Command: "curl one", CommandPrivateCa: "curl --cacert ca.pem two",
		PrivateCa: &client.PrivateCA{Certificate: "a certificate", Fingerprints: []string{"AB:CD", "EF:01"}}})
	for _, want := range []string{
		">curl one<", "AB:CD", "EF:01", `data-copy="a certificate"`, `href="data:application/x-pem-file;base64,YSBjZXJ0aWZpY2F0ZQ=="`,
	} {
		require.Contains(t, known, want)
	}
	require.NotContains(t, known, "ca.pem two", "there is nothing to choose")
}

// A command for several machines stays while it works, and tells how many have used it.
func TestProgressOfEnrollment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	online := &client.EnrollmentRunner{State: client.EnrollmentRunnerStateOnline}
	shown := func(e client.Enrollment) string {
		r := httptest.NewRequest(http.MethodGet, "/w/acme/farm/enrollments/id", nil)
		r.SetPathValue("workspace", "acme")
		var out bytes.Buffer
		var runner *client.Runner
		if e.Runner != nil {
			runner = &client.Runner{Name: "builder-1"}
		}
		require.NoError(t, waitingView(&page.Visit{Request: r, Now: now}, e, runner).Render(t.Context(), &out))
		return out.String()
	}
	for name, c := range map[string]struct {
		e              client.Enrollment
		polls, of, has string
	}{
		"one, waiting":     {client.Enrollment{Status: "pending", Uses: 1, UsesLeft: 1}, "hx-get", "", "Waiting for the runner"},
		"one, used":        {client.Enrollment{Status: "used", Uses: 1, Runner: online}, "", "", "The command no longer works"},
		"several, waiting": {client.Enrollment{Status: "pending", Uses: 3, UsesLeft: 3}, "hx-get", "0 of 3 machines", "Online"},
		"several, some":    {client.Enrollment{Status: "pending", Uses: 3, UsesLeft: 1, Runner: online}, "hx-get", "2 of 3 machines", "online"},
		"several, all":     {client.Enrollment{Status: "used", Uses: 3, Runner: online}, "", "3 of 3 machines", "is online"},
		"several, ended":   {client.Enrollment{Status: "withdrawn", Uses: 3, UsesLeft: 1, Runner: online}, "", "", "The command no longer works"},
	} {
		c.e.ExpiresAt = now.Add(time.Minute)
		text := shown(c.e)
		require.Equal(t, c.polls != "", strings.Contains(text, "hx-get=\"/w/acme/farm/enrollments"), name)
		require.Contains(t, text, c.of, name)
		require.Contains(t, text, c.has, name)
	}
}

func TestRunnerStateTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runner              client.Runner
		name, class, detail string
	}{
		{client.Runner{State: client.RunnerStateOnline, Slots: 2, Busy: 1}, "Online", "online", "1 of 2"},
		{client.Runner{State: client.RunnerStateOnline, Slots: 2, Busy: 2}, "Busy", "busy", "2 of 2"},
		{client.Runner{State: client.RunnerStateDraining, Draining: true, Slots: 2, Busy: 2}, "Draining", "draining", "2 of 2"},
		{client.Runner{State: client.RunnerStateOffline, OfflineReason: client.RunnerOfflineReasonDisconnected}, "Offline", "offline",
			"disconnected"},
		{client.Runner{State: client.RunnerStateOffline, OfflineReason: client.RunnerOfflineReasonNoCertificate}, "Offline", "offline",
			"refused"},
		{client.Runner{State: client.RunnerStateRevoked, Os: "linux", Arch: "arm64"}, "Revoked", "revoked", "linux arm64"},
	} {
		require.Equal(t, []string{c.name, c.class, c.detail}, []string{stateName(c.runner), stateClass(c.runner), stateDetail(c.runner)})
	}
	require.Equal(t, "slots busy, 2 free, 1 draining", slotsText(client.Slots{Total: 8, Busy: 6, Draining: 1}))
	require.Equal(t, "slots busy", slotsText(client.Slots{Total: 2, Busy: 3}))
}

// The parts of a day's jobs add up.
func TestDayText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0 passed", dayText(client.FarmDay{}))
	require.Equal(t, "6 passed, 1 failed, 1 cancelled", dayText(client.FarmDay{Succeeded: 6, Failed: 1, Cancelled: 1}))
	require.Equal(t, "1 passed, 2 failed, 3 timed out, 4 cancelled, 5 lost, 6 expired",
		dayText(client.FarmDay{Succeeded: 1, Failed: 2, TimedOut: 3, Cancelled: 4, Lost: 5, Expired: 6}))
}
