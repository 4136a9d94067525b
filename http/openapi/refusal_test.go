package openapi

import (
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"
)

func TestNumbersInErrorsHaveNoExponent(t *testing.T) {
	t.Parallel()
	most, least := 1e9, -2.5
	s := &huma.Schema{Type: huma.TypeNumber, Maximum: &most, Minimum: &least}
	s.PrecomputeMessages()
	for value, want := range map[float64]string{1e10: "must be 1000000000 or less", -3: "must be -2.5 or more"} {
		var found huma.ValidateResult
		huma.Validate(huma.NewMapRegistry("", huma.DefaultSchemaNamer), s, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, value, &found)
		require.Len(t, found.Errors, 1)
		require.Contains(t, found.Errors[0].Error(), want)
	}
}
