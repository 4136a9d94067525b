package runner

import (
	"context"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/identity"
)

// What is to be uninstalled is removed even if the farm is not told of it, and it is said why.
func TestUninstallWithoutFarm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse func(f *farm, w http.ResponseWriter, r *http.Request)
		want   string // part of what is said, "" if the farm knows
	}{
		"revoked already": {func(_ *farm, w http.ResponseWriter, _ *http.Request) { refuseWith(w, 403, "runner_revoked") }, ""},
		"suspended":       {func(_ *farm, w http.ResponseWriter, _ *http.Request) { refuseWith(w, 403, "runner_suspended") }, "runner_suspended"},
		"an older farm":   {func(_ *farm, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "404 by a proxy"},
		// refused, or reset if the connection of the enrollment is not yet known to be closed
		"not reached": {nil, "DELETE /api/v1/farm/registrations/self: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			folder := f.enrolled()
			if c.refuse == nil {
				f.server.Close()
			}
			f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
				require.Equal(t, "DELETE", r.Method)
				c.refuse(f, w, r)
				return true
			}
			revokeErr, err := folder.Uninstall(t.Context(), false)
			require.NoError(t, err)
			if c.want == "" {
				require.NoError(t, revokeErr)
			} else {
				require.ErrorContains(t, revokeErr, c.want)
			}
			require.NoDirExists(t, string(folder))
		})
	}
}

// An uninstallation that is interrupted while the farm does not answer removes the folder.
func TestInterruptedUninstall(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	f.refuse = func(_ http.ResponseWriter, r *http.Request) bool {
		interrupt()
		<-r.Context().Done()
		// An answer could reach the runner: TLS announces the end before the connection is closed.
		panic(http.ErrAbortHandler)
	}
	revokeErr, err := folder.Uninstall(ctx, false)
	require.NoError(t, err)
	require.ErrorIs(t, revokeErr, context.Canceled)
	require.NoDirExists(t, string(folder))
}

func TestUninstallRefusesForeignFiles(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	other := folder.Path("important.txt")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	_, err := folder.Uninstall(t.Context(), false)
	require.ErrorContains(t, err, "important.txt")
	require.False(t, f.deregistered)
	require.FileExists(t, other)
	require.FileExists(t, folder.Path(identity.CredentialsFile))
}
