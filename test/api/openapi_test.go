//go:build kin

package api

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

// TestOpenAPI holds the description against kin-openapi's idea of OpenAPI 3.1.
func TestOpenAPI(t *testing.T) {
	s := newSite(t)
	v := s.serve(t, s.clone(t))
	doc, err := openapi3.NewLoader().LoadFromData([]byte(v.ask(t, "nobody", "GET /api/openapi.json", "").body))
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	_ = pgtest.URL
}
