package api

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// testOpenAPI holds the description against another program's idea of OpenAPI 3.1.
func testOpenAPI(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	doc, err := openapi3.NewLoader().LoadFromData([]byte(v.ask(t, "nobody", "GET /api/openapi.json", "").body))
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
}
