//go:build linux

package mask

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever programs of other languages write of a secret is masked. Each writes a line for each secret. Of the
// programs, only git is needed by other tests too: the others are run where they are installed.
func TestEncodingsByProgramsAreMasked(t *testing.T) {
	t.Parallel()
	var secrets []string
	for _, s := range specialSecrets {
		if !strings.Contains(s, "\n") { // git takes no others
			secrets = append(secrets, s)
		}
	}
	python := func(expression string) []string {
		return []string{"python3", "-c", "import json, os, sys, urllib.parse as u\nfor s in sys.argv[1:]: print(" + expression + ")"}
	}
	node := func(expression string) []string {
		return []string{"node", "-e", "for (const s of process.argv.slice(1)) console.log(" + expression + ")"}
	}
	jq := func(filter string, options ...string) []string {
		return append(append([]string{"jq", "-n"}, options...), "$ARGS.positional[]"+filter, "--args")
	}
	for name, args := range map[string][]string{
		"python quote":          python("u.quote(s)"),
		"python quote all":      python("u.quote(s, safe='')"),
		"python urlencode":      python("u.urlencode({'a': s})"),
		"python json":           python("json.dumps(s)"),
		"python json not ASCII": python("json.dumps(s, ensure_ascii=False)"),
		"python repr":           python("[s]"),
		"python repr of bytes":  python("os.fsencode(s)"),
		"encodeURIComponent":    node("encodeURIComponent(s)"),
		"encodeURI":             node("encodeURI(s)"),
		"URLSearchParams":       node("String(new URLSearchParams({a: s}))"),
		"URL":                   node("Object.assign(new URL('https://h'), {password: s}).href"),
		"JSON.stringify":        node("JSON.stringify(s)"),
		"util.inspect":          node("util.inspect(s)"),
		"jq":                    jq(""),
		"jq in ASCII":           jq("", "-a"),
		"jq uri":                jq("|@uri", "-r"),
		"git credential-store": {"git", "-c", `alias.each=!f() { for s; do rm -f "$F"
			printf 'protocol=https\nhost=h\nusername=u\npassword=%s\n\n' "$s" | git credential-store --file="$F" store
			cat "$F"; done; }; f`, "each"},
	} {
		if _, err := exec.LookPath(args[0]); err != nil {
			require.NotEqual(t, "git", args[0], err)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), args[0], append(args[1:], secrets...)...)
			cmd.Env = append(cmd.Environ(), "F="+t.TempDir()+"/store", "PYTHONUTF8=1", "PYTHONIOENCODING=utf-8")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			require.Len(t, lines, len(secrets), string(out))
			for i, line := range lines {
				requireMasked(t, secrets[i], []byte(line))
			}
		})
	}
}
