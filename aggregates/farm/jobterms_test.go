package farm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// Jobs are cached in memory between commands, so they keep no part of the specification that may be large.
func TestJobKeepsNoScriptsOrEnvironments(t *testing.T) {
	const secret = "large and not needed"
	j := &Job{}
	j.Apply(events.JobSubmitted{Spec: events.JobSpec{
		Name: "test", Steps: []events.JobStep{{Name: secret, Run: secret, Shell: secret, Env: map[string]string{"A": secret}}},
		Annotations: map[string]string{"a": secret}, Secrets: []string{secret}, Repo: &events.JobRepo{Name: secret},
		Requires:  events.JobRequires{Labels: []string{secret}},
		Artifacts: []events.JobArtifactSpec{{Name: "dist", Paths: []string{secret}, When: "always", Required: true}},
	}}, events.Actor{})
	require.False(t, strings.Contains(fmt.Sprintf("%+v", j), secret))
	require.Equal(t, "test", j.Name())
	require.Equal(t, []string{"dist"}, j.required())
}
