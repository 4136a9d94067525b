package api

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.http")

// testConversations plays testdata/*.http, each on a database of its own. A
// block is a request and the answer it must get:
//
//	### What it shows
//	as: ada@acme
//	PATCH /api/v1/members/<member vera@acme>
//	{"role": "Owner"}
//
//	< 200 OK
//	< Content-Type: application/json
//	{
//	  "id": "<member vera@acme>",
//	  …
//
// What differs from run to run has a name in <>; see placeholders. A request
// may use the names of the seeded database, and what an answer before called so.
func testConversations(t *testing.T, s *site) {
	files, err := filepath.Glob("testdata/*.http")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			c := &conversation{service: s.serve(t, s.clone(t)), names: newPlaceholders(s)}
			c.spec = c.loadSpec(t)
			played := c.play(t, string(text))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(played), 0o644))
				return
			}
			require.Equal(t, string(text), played)
		})
	}
}

type conversation struct {
	*service
	names *placeholders
	spec  *spec
}

func (c *conversation) play(t *testing.T, text string) string {
	blocks := strings.Split("\n"+text, "\n### ")
	played := strings.TrimPrefix(blocks[0], "\n")
	for _, block := range blocks[1:] {
		request, _, _ := strings.Cut(block, "\n< ")
		request = strings.TrimSpace(request)
		title, rest, _ := strings.Cut(request, "\n")
		played += "### " + request + "\n\n" + c.turn(t, title, c.names.fill(rest)) + "\n"
	}
	return strings.TrimSuffix(played, "\n")
}

// turn sends one request and returns its answer as text.
func (c *conversation) turn(t *testing.T, title, request string) string {
	head, body, _ := strings.Cut(request, "\n\n")
	lines := strings.Split(head, "\n")
	as, ok := strings.CutPrefix(lines[0], "as: ")
	require.True(t, ok && len(lines) > 1, "%s: want as: and a request", title)
	a := c.ask(t, as, lines[1], body, lines[2:]...)
	c.spec.requireFits(t, lines[1], a)

	var b strings.Builder
	fmt.Fprintf(&b, "< %d %s\n", a.status, http.StatusText(a.status))
	for _, name := range shownHeaders {
		for _, value := range a.header.Values(name) {
			fmt.Fprintf(&b, "< %s: %s\n", name, c.names.header(name, value))
		}
	}
	if id := a.header.Get("X-Request-Id"); !idForm.MatchString(id) { // it is the caller's
		fmt.Fprintf(&b, "< X-Request-Id: %s\n", id)
	}
	if a.body != "" {
		b.WriteString(c.names.hide(a.body) + "\n")
	}
	return b.String()
}

// shownHeaders are those that say something about the answer in particular.
var shownHeaders = []string{
	"Content-Type", "Cache-Control", "Allow", "Location", "WWW-Authenticate", "Retry-After", "Set-Cookie", "X-Svc-Position",
}
