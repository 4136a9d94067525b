package executor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

func TestCheckoutFailure(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"fatal: couldn't find remote ref refs/heads/x":                                             failed,
		"error: Server does not allow request for unadvertised object 1111":                        failed,
		"fatal: Authentication failed for 'https://host/repo/'":                                    failed,
		"fatal: could not read Username for 'https://host': terminal prompts disabled":             failed,
		"fatal: unable to access 'https://host/': The requested URL returned error: 403":           failed,
		"git@host: Permission denied (publickey).":                                                 failed,
		"fatal: repository 'https://host/repo/' not found":                                         failed,
		"fatal: unable to access 'https://host/': Could not resolve host: host":                    Infra,
		"fatal: unable to access 'https://host/': The requested URL returned error: 503":           Infra,
		"fatal: the repository has files of Git LFS, and git-lfs is not installed on this machine": failed,
		"fatal: No url found for submodule path 'sub' in .gitmodules":                              failed,
		"fatal: the remote end hung up unexpectedly":                                               Infra,
		"error: RPC failed; curl 56 GnuTLS recv error (-54): Error in the pull function.":          Infra,
		"fatal: write error: No space left on device":                                              Infra,
		"": Infra,
	} {
		require.Equal(t, want, checkoutFailure(wire.Event{Outcome: failed}, text).Outcome, text)
	}
	stopped := wire.Event{Outcome: cancelled, SignalReason: ReasonCancel}
	require.Equal(t, stopped, checkoutFailure(stopped, "couldn't find remote ref"))
	var end tail
	_, _ = end.Write([]byte(strings.Repeat("a", 2*tailBytes)))
	_, _ = end.Write([]byte("b"))
	require.Len(t, end, tailBytes)
	require.True(t, strings.HasSuffix(string(end), "ab"))
}
