package api

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// testOpenAPI validates the OpenAPI document with another implementation of OpenAPI 3.1.
func testOpenAPI(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	doc, err := openapi3.NewLoader().LoadFromData([]byte(v.ask(t, "nobody", "GET /api/openapi.json", "").body))
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
}
