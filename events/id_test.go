package events_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"svc/events"
)

// requireForm requires that a value is encoded as that JSON text and decoded from it.
func requireForm[T any](t *testing.T, form string, value T) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	require.Equal(t, form, string(text))
	var back T
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, value, back)
}

func TestIDsSortByTheTimeTheyWereMade(t *testing.T) {
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	var ids []events.ID
	var texts []string
	for range 1000 {
		ids, texts = append(ids, events.NewID(at)), append(texts, events.NewID(at).String())
		at = at.Add(time.Millisecond << rand.IntN(20))
	}
	require.True(t, slices.IsSortedFunc(ids, func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) }))
	require.IsIncreasing(t, texts)
}

func TestIDsOfOneMomentDiffer(t *testing.T) {
	at := time.Now()
	require.NotEqual(t, events.NewID(at), events.NewID(at))
}

func TestIDIsTheTimeAndThenRandomness(t *testing.T) {
	at := time.UnixMilli(0x0123456789ab)
	id := events.NewIDFrom(at, bytes.NewReader([]byte{0xf0, 1, 2, 3, 4, 5, 6, 7, 8, 0x9f}))
	require.Equal(t, "01234567-89ab-7001-8203-04050607089f", id.String())
	requireForm(t, `"01234567-89ab-7001-8203-04050607089f"`, id)
}

// rfc9562 is the pattern of strict clients, such as Zod's z.uuid().
var rfc9562 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestNewIDsAreUUIDsOfVersion7(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(0, 1<<48-1).Draw(t, "at"))
		entropy := rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "entropy")
		id := events.NewIDFrom(at, bytes.NewReader(entropy))
		require.Regexp(t, rfc9562, id.String())
		made := uint64(0)
		for _, b := range id[:6] {
			made = made<<8 | uint64(b)
		}
		require.EqualValues(t, at.UnixMilli(), made)
	})
	require.Regexp(t, rfc9562, events.NewID(time.Now()).String())
}

func TestZeroIDNamesNothing(t *testing.T) {
	require.True(t, events.ID{}.IsZero())
	require.False(t, events.NewID(time.Now()).IsZero())
}

func TestParseIDReadsWhatIsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var id events.ID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		for _, text := range []string{id.String(), strings.ToUpper(id.String())} {
			back, err := events.ParseID(text)
			require.NoError(t, err)
			require.Equal(t, id, back)
		}
	})
}

func TestParseIDRefuses(t *testing.T) {
	const id = "01234567-89ab-f001-0203-04050607089f"
	for name, text := range map[string]string{
		"nothing":            "",
		"no hyphens":         strings.ReplaceAll(id, "-", ""),
		"hyphens elsewhere":  "0123456-789ab-f001-0203-04050607089f",
		"too short":          id[1:],
		"too long":           id + "0",
		"braces":             "{" + id + "}",
		"a URN":              "urn:uuid:" + id,
		"space around":       " " + id[1:],
		"another letter":     id[:35] + "g",
		"letters of 2 bytes": id[:34] + "é",
		"a NUL":              id[:35] + "\x00",
		"a ULID's own form":  "014D2PF2DBY0020C082814C3GSNZ",
		"hyphens for digits": "--------------------------------------"[:36],
	} {
		t.Run(name, func(t *testing.T) {
			got, err := events.ParseID(text)
			require.ErrorContains(t, err, "parse id ")
			require.Zero(t, got)
		})
	}
}

func TestParseIDErrorIsShort(t *testing.T) {
	_, err := events.ParseID(strings.Repeat("x", 10_000))
	require.Less(t, len(err.Error()), 200)
}

func FuzzParseID(f *testing.F) {
	f.Add("01234567-89ab-f001-0203-04050607089f")
	f.Add("01234567-89AB-F001-0203-04050607089F")
	f.Add("01234567-89ab-f001-0203-0405060708 f")
	f.Add("--------------------------------é-")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := events.ParseID(text)
		if err != nil {
			require.Zero(t, id)
			return
		}
		require.Equal(t, strings.ToLower(text), id.String())
	})
}
