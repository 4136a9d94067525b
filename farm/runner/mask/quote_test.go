//go:build linux

package mask

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// specialSecrets contain characters that shells and encodings treat specially.
var specialSecrets = []string{
	"pass'word with 'quotes'", `back\slash "double" $HOME`, "`tick` $(sub) !bang", "'leading", "trailing'''", "#numbersign~tilde", "~tilde",
	"two lines\nof 'a' key", "tab\there", "p&ss;<w>|{rd}*?[1]^", "gr\u00fc\u00dfe-\u00fc",
	"a,b=c:d~e#f", strings.Repeat("long 'secret' ", 20), "escape\x1b[0m;bell\a",
	"wJalrXUtnFEMI/K7MDENG+bPxRfiCY", "p&ss!(w)rd d'*", "100%-sure of 7%", "\U0001f511-geheim-\U0001f511",
}

// Whatever a shell prints of a secret is masked, except for quotes around it.
func TestQuotingByShellsIsMasked(t *testing.T) {
	t.Parallel()
	for shell, scripts := range map[string][]string{
		"bash": {"printf '%q\\n' \"$S\"", "export -p", "set -x; : \"$S\"", "set -x; : \"A=$S\"",
			"echo \"${S@Q}\"", "declare -p S", "set", "A=(\"$S\"); declare -p A", "alias a=\"$S\"; alias"},
		"dash": {"export -p", "set -x; : \"$S\"", "set"},
	} {
		for _, secret := range specialSecrets {
			for _, script := range scripts {
				for _, locale := range []string{"C", "C.UTF-8"} {
					cmd := exec.CommandContext(t.Context(), shell, "-c", script)
					cmd.Env = []string{"S=" + secret, "LC_ALL=" + locale}
					out, err := cmd.CombinedOutput()
					require.NoError(t, err, string(out))
					requireMasked(t, secret, out)
				}
			}
		}
	}
}

// requireMasked requires that nothing of a secret is left of a program's output.
func requireMasked(t *testing.T, secret string, out []byte) {
	t.Helper()
	got := maskInPieces(t, New(secret), out)
	require.Contains(t, got, Mark, "%q: %s", secret, out)
	for _, word := range strings.FieldsFunc(secret, func(r rune) bool { return r < 'a' || r > 'z' }) {
		if len(word) >= 4 {
			require.NotContains(t, got, word, "%q: %s", secret, out)
		}
	}
}
