package events

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormattedTimesHaveThreeDigits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event     Event
		text, out string
	}{
		"microseconds": {JobAccepted{}, `{"epoch":1,"deadline":"2026-11-20T12:00:00.123456Z"}`,
			`{"epoch":1,"deadline":"2026-11-20T12:00:00.123Z"}`},
		"none": {JobLeased{}, `{"runnerName":"2026-11-20T12:00:00Z","acceptBy":"2026-11-20T12:00:00Z"}`,
			`{"runnerName":"2026-11-20T12:00:00Z","acceptBy":"2026-11-20T12:00:00.000Z"}`},
		"one, inside": {RunnerEnrolled{}, `{"name":"\u003c","certificate":{"serial":"1","notAfter":"2026-11-20T12:00:00.1Z"}}`,
			`{"name":"\u003c","certificate":{"serial":"1","notAfter":"2026-11-20T12:00:00.100Z"}}`},
		"another zone": {JobAccepted{}, `{"deadline":"2026-11-20T13:00:00+01:00"}`, `{"deadline":"2026-11-20T12:00:00.000Z"}`},
		"no time":      {JobAccepted{}, `{"deadline":null,"more":["2026-11-20T12:00:00Z"]}`, `{"deadline":null,"more":["2026-11-20T12:00:00Z"]}`},
		"of a filter": {AuditExported{}, `{"filter":{"from":"2026-11-20T12:00:00Z","q":"2026-11-20T12:00:00Z"}}`,
			`{"filter":{"from":"2026-11-20T12:00:00.000Z","q":"2026-11-20T12:00:00Z"}}`},
		"without any": {JobArtifactsCompleted{}, `{ "files": 1 }`, `{ "files": 1 }`},
		"not decoded": {Undecoded{}, `{"at":"2026-11-20T12:00:00Z"}`, `{"at":"2026-11-20T12:00:00Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := Record{Event: c.event, Data: []byte(c.text)}
			require.Equal(t, c.out, string(r.FormattedData()))
			require.Equal(t, c.text, string(r.Data), "the record is unchanged")
		})
	}
}

func TestTimesInChangesHaveThreeDigits(t *testing.T) {
	t.Parallel()
	r := Record{Event: JobAccepted{}, Data: []byte(`{"epoch":1,"deadline":"2026-11-20T12:00:00.123456Z"}`)}
	require.Equal(t, []Change{
		{Field: "epoch", To: json.RawMessage(`1`)}, {Field: "deadline", To: json.RawMessage(`"2026-11-20T12:00:00.123Z"`)},
	}, r.Changes())
}
