package events_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// update never overwrites files in testdata, because a stored form never changes.
var update = flag.Bool("update", false, "write the stored forms that testdata lacks, with made-up values to be replaced by real ones")

const (
	minimal   = ".minimal"       // suffix of forms without optional fields
	auditText = "audit.txt"      // how the audit log shows the forms
	madeUp    = "to be replaced" // text that -update writes as a placeholder
)

// TestEarlierForms decodes forms that are no longer written, into their current form.
func TestEarlierForms(t *testing.T) {
	files := []events.FileChange{{Path: "internal/import/parse.go", Added: 14, Removed: 6}}
	pushed := events.RunCommitsPushed{Head: "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b", Base: "4be7a90c15d2f8634a1b9c0e57d3862f0e94ab71",
		Files: files}
	byLoop, byPerson := pushed, pushed
	byLoop.By, byPerson.By = events.PushedByLoop, events.PushedByPerson
	for name, want := range map[string]events.Event{
		"run.commits_pushed.schema1":         byPerson,
		"run.commits_pushed.schema1.minimal": byLoop,
	} {
		stored, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		require.NoError(t, err)
		got, err := events.Decode(want.Kind(), 1, stored)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, kind := range events.Kinds() { // a kind that gets a new form needs a line above
		require.Equal(t, map[string]int{"run.commits_pushed": 2}[kind], events.Schema(kind)&^1, kind)
	}
}

// TestStoredForms decodes every stored form and encodes it again.
func TestStoredForms(t *testing.T) {
	for name, kind := range wantedForms(t) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".json")
			if *update {
				writeMissing(t, file, kind, strings.HasSuffix(name, minimal))
			}
			stored, err := os.ReadFile(file)
			require.NoError(t, err, "go test ./events -update writes a form to begin with")
			require.NotContains(t, string(stored), madeUp, "put a real value in its place")
			e, err := events.Decode(kind, events.Schema(kind), stored)
			require.NoError(t, err)
			require.Equal(t, kind, e.Kind())
			again, err := events.Encode(e)
			require.NoError(t, err)
			require.Equal(t, string(stored), string(again)+"\n")
			requireOptional(t, reflect.ValueOf(e), !strings.HasSuffix(name, minimal))
		})
	}
}

func TestEveryStoredFormIsOfAKind(t *testing.T) {
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	wanted := wantedForms(t)
	for _, f := range files {
		if f.Name() == "fuzz" || f.Name() == auditText { // go test stores findings of fuzzing in fuzz
			continue
		}
		name, ok := strings.CutSuffix(f.Name(), ".json")
		require.True(t, ok, f.Name())
		if strings.Contains(name, ".schema") { // an earlier form
			continue
		}
		require.Contains(t, wanted, name, "no kind has a form of this name")
	}
}

// A form that an older build wrote lacks fields that were added since, and one of a newer
// build has fields that this build does not know.
func TestDecodeIgnoresUnknownFields(t *testing.T) {
	e, err := events.Decode("member.left", 1, []byte(`{"email":"zoe@acme.example","since":"2026"}`))
	require.NoError(t, err)
	require.Equal(t, events.MemberLeft{Email: "zoe@acme.example"}, e)
}

func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		kind   string
		schema int
		data   string
		want   string
	}{
		"an unknown kind":        {"member.vanished", 1, `{}`, `decode event: unknown kind "member.vanished", schema 1`},
		"no kind":                {"", 1, `{}`, `decode event: unknown kind "", schema 1`},
		"a kind in another case": {"Member.Left", 1, `{}`, `decode event: unknown kind "Member.Left", schema 1`},
		"a newer schema":         {"member.left", 2, `{}`, `decode event: unknown kind "member.left", schema 2`},
		"no schema":              {"member.left", 0, `{}`, `decode event: unknown kind "member.left", schema 0`},
		"text that is no JSON":   {"member.left", 1, `{`, `decode member.left: unexpected end of JSON input`},
		"an id that is none":     {"member.left", 1, `{"memberId":"7"}`, `decode member.left: parse id "7": want 8-4-4-4-12 hex digits`},
		"a short fingerprint": {"service_account.revoked", 1, `{"fingerprint":"9b74"}`,
			`decode service_account.revoked: fingerprint of 4 digits`},
		"a field of another type": {"run.pull_request_opened", 1, `{"number":"7"}`,
			`decode run.pull_request_opened: json: cannot unmarshal string into Go struct field RunPullRequestOpened.number of type int`},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := events.Decode(c.kind, c.schema, []byte(c.data))
			require.EqualError(t, err, c.want)
			require.Nil(t, e)
		})
	}
}

func TestKindsAreSortedAndWellFormed(t *testing.T) {
	kinds := events.Kinds()
	require.IsIncreasing(t, kinds)
	for _, k := range kinds {
		require.Regexp(t, `^[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*$`, k)
	}
}

// wantedForms returns the files that testdata must have, with the kind of each.
func wantedForms(t *testing.T) map[string]string {
	forms := map[string]string{}
	for _, kind := range events.Kinds() {
		forms[kind] = kind
		if len(optional(reflect.TypeOf(zero(t, kind)))) > 0 {
			forms[kind+minimal] = kind
		}
	}
	return forms
}

func sorted(forms map[string]string) []string { return slices.Sorted(maps.Keys(forms)) }

// stored reads a stored form.
func stored(t *testing.T, name, kind string) (events.Event, []byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	e, err := events.Decode(kind, events.Schema(kind), data)
	require.NoError(t, err)
	return e, data
}

func zero(t *testing.T, kind string) events.Event {
	e, err := events.Decode(kind, events.Schema(kind), []byte(`{}`))
	require.NoError(t, err)
	return e
}

// writeMissing writes a form unless the file exists.
func writeMissing(t *testing.T, file, kind string, minimal bool) {
	e := reflect.New(reflect.TypeOf(zero(t, kind))).Elem()
	fill(e, minimal)
	data, err := events.Encode(e.Interface().(events.Event))
	require.NoError(t, err)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if os.IsExist(err) {
		return
	}
	require.NoError(t, err)
	_, err = f.Write(append(data, '\n'))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
