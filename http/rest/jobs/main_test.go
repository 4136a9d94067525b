package jobs

import (
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/test/pgtest"
	"svc/test/world"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const testTimeout = time.Minute

var epoch = world.Epoch

// described returns the OpenAPI document of the routes of jobs.
func described(t *testing.T) gjson.Result {
	t.Helper()
	s := &Server{Door: door.New(door.Config{})}
	api := openapi.New(openapi.Config{Title: "Jobs", Version: "1", Describe: func(*huma.OpenAPI) {}, ExampleID: schema.ExampleID})
	s.Mount(api, s.Routes())
	text := api.Document().JSON()
	require.True(t, gjson.ValidBytes(text))
	return gjson.ParseBytes(text)
}
