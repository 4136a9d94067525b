//go:build linux && !race

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestJobSecretIsStoredNowhere requires that the value of a secret reaches the job, and is in no program's
// output, answer, row of any table, or file of the machine and of the artifact store.
func TestJobSecretIsStoredNowhere(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 1)
	rest := f.rest[0].url()
	const value = "opensesame-1001-nights"
	f.owner.expect(t, http.StatusNoContent, "PUT", rest+"/api/v1/farm/secrets/DOOR", map[string]string{"value": value})
	a := f.owner.expect(t, http.StatusCreated, "POST", rest+"/api/v1/farm/jobs", map[string]any{
		"name": "open", "sandbox": map[string]string{"kind": "none"}, "secrets": []string{"DOOR"},
		"steps": []map[string]string{{"name": "say",
			"run": `test "$DOOR" = ` + value[:4] + `"` + value[4:] + `" && echo it is "$DOOR" && echo done >out.txt`}},
		"artifacts": []map[string]any{{"name": "out", "paths": []string{"out.txt"}}},
	})
	answers := []answer{a}
	job := "/api/v1/farm/jobs/" + decode[struct{ Job job }](t, a).Job.ID
	require.Eventually(t, func() bool { return f.countUnfinished() == 0 }, waitLimit, 100*time.Millisecond)
	for _, path := range []string{job, job + "/log", job + "/events", job + "/artifacts", "/api/v1/farm/secrets", "/api/v1/audit?limit=100"} {
		answers = append(answers, f.owner.expect(t, http.StatusOK, "GET", rest+path, nil))
	}
	require.Equal(t, "succeeded", decode[struct{ State string }](t, answers[1]).State, "it had the value")
	require.Contains(t, string(answers[2].body), "it is ***")
	for _, a := range answers {
		require.NotContains(t, string(a.body), value)
	}
	for _, p := range []*process{f.rest[0].process, f.rest[1].process, f.machines[0].process} {
		require.NotContains(t, p.out.String(), value)
	}
	requireNoFileHolds(t, value, f.machines[0].folder, f.artifacts, f.scratch)
	c := f.connect()
	for _, row := range queryRows(t, c, `select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`) {
		found := queryRows(t, c, fmt.Sprintf(`select 1 from %q t where strpos(t::text, $1) > 0 or strpos(t::text, encode($1::bytea, 'hex')) > 0`,
			row[0]), value)
		require.Empty(t, found, row[0])
	}
}

// requireNoFileHolds requires that no file in folders contains a value, and that the first folder has files.
func requireNoFileHolds(t *testing.T, value string, folders ...string) {
	t.Helper()
	var read []string
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // what other jobs need comes and goes
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			require.NotContains(t, string(text), value, path)
			read = append(read, path)
			return err
		})
		require.NoError(t, err)
	}
	require.True(t, slices.ContainsFunc(read, func(path string) bool { return strings.HasPrefix(path, folders[0]) }))
}
