package events

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The summary of a job is the same whether its steps were decoded or not.
func TestSummaryOfALargeJob(t *testing.T) {
	e := JobSubmitted{Spec: JobSpec{
		Name: `the "steps"`, Repo: &JobRepo{Name: "acme/api", Commit: "abc"}, Priority: "high",
		Steps: []JobStep{{Name: "a", Run: strings.Repeat(`echo "]}" \n`, largeJob)}, {Run: "b"}},
	}}
	data, err := Encode(e)
	require.NoError(t, err)
	r := Record{Seq: 1, Schema: 1, Meta: []byte(`{"actor":{"type":"user","name":"ann@acme.example"}}`), Data: data}
	whole := r.Decoded(e.Kind())
	require.Equal(t, e.Spec, whole.Event.(JobSubmitted).Spec)
	require.Equal(t, whole.Summary(), r.DecodedSummary(e.Kind()))
	s := whole.Summary()
	require.Equal(t, e.Spec.Name, s.Target().Name)
	require.Equal(t, whole.Changes(), s.Changes())
	require.Equal(t, data, r.Data, "the record is not changed")
	r.Data = append(data[:len(data)-1:len(data)-1], '!')
	require.IsType(t, Undecoded{}, r.DecodedSummary(e.Kind()).Event)
}
