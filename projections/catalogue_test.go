package projections

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
)

// A noun that is missing would leave events out, and one too many would decode
// them for nothing.
func TestViewsTakeInWhatTheirNounsSay(t *testing.T) {
	files, err := filepath.Glob("../events/testdata/*.json")
	require.NoError(t, err)
	taken := map[string]map[string]bool{}
	for _, file := range files {
		parts := strings.Split(filepath.Base(file), ".")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		kind := parts[0] + "." + parts[1]
		e, err := events.Decode(kind, events.Schema(kind), data)
		require.NoError(t, err)
		for _, v := range All() {
			b := &pgx.Batch{}
			v.load(b, v.Name(), []events.Record{{Event: e}})
			if b.Len() > 0 {
				if taken[v.Name()] == nil {
					taken[v.Name()] = map[string]bool{}
				}
				if slices.Contains(nouns[v.Name()], kind) {
					taken[v.Name()][kind] = true
				} else {
					taken[v.Name()][parts[0]] = true
				}
			}
		}
	}
	delete(taken, audit.Name())
	for _, v := range All() {
		if v != View(audit) {
			require.NotEmpty(t, nouns[v.Name()], "%s has no nouns: nothing is decoded for it", v.Name())
		}
	}
	want := map[string]map[string]bool{}
	for view, list := range nouns {
		want[view] = map[string]bool{}
		for _, noun := range list {
			want[view][noun] = true
		}
	}
	require.Equal(t, want, taken)
}

// Live updates decode only where the target is in the data.
func TestTargetsAreWhereLiveLooksForThem(t *testing.T) {
	files, err := filepath.Glob("../events/testdata/*.json")
	require.NoError(t, err)
	inData := map[string]bool{}
	for _, file := range files {
		noun, rest, _ := strings.Cut(filepath.Base(file), ".")
		kind, _, _ := strings.Cut(rest, ".")
		kind = noun + "." + kind
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		e, err := events.Decode(kind, events.Schema(kind), data)
		require.NoError(t, err)
		r := events.Record{Stream: events.NewID(time.Now()), Event: e}
		if target := targetOf(r); target.Type != noun && noun != "decision" || target.ID != r.Stream {
			inData[noun] = true
		}
	}
	require.ElementsMatch(t, pointing, slices.Collect(maps.Keys(inData)))
}
