package api

import (
	"context"
	"flag"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.http")

// testConversations replays test/testdata/*.http, each file on a database of its own. A block is a request
// and the expected answer:
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
// A block that begins with "at: the code host" is a request of a person's browser to the code host, with a
// form as its body. One that begins with "at: the database" is an SQL statement, for example to change times.
//
// Values that differ between runs have placeholders in <>; see placeholders. Requests may contain those of
// the seeded database and those of earlier answers.
func testConversations(t *testing.T, s *fixture) {
	files, err := filepath.Glob("../testdata/*.http")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			c := &conversation{service: s.serve(t, s.cloneDatabase(t), "SVC_ENGINE_URL="+s.startCodeHostEngine(t)), names: newPlaceholders(s)}
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

// A conversation is the replay of one file.
type conversation struct {
	*service
	names *placeholders
	spec  *spec
}

// play sends the requests of a file, and returns the file with the answers received.
func (c *conversation) play(t *testing.T, text string) string {
	blocks := strings.Split("\n"+text, "\n### ")
	played := strings.TrimPrefix(blocks[0], "\n")
	for _, block := range blocks[1:] {
		request, _, _ := strings.Cut(block, "\n< ")
		request = strings.TrimSpace(request)
		title, rest, _ := strings.Cut(request, "\n")
		played += "### " + request + "\n\n"
		if answer := c.exchange(t, title, c.names.fill(rest)); answer != "" {
			played += answer + "\n"
		}
	}
	return strings.TrimSuffix(played, "\n")
}

// exchange sends the request of a block, and returns the answer as text.
func (c *conversation) exchange(t *testing.T, title, request string) string {
	head, body, _ := strings.Cut(request, "\n\n")
	lines := strings.Split(head, "\n")
	require.Greater(t, len(lines), 1, title)
	switch lines[0] {
	case "at: the code host":
		return c.format(c.postToCodeHost(t, lines[1], body))
	case "at: the database":
		c.execute(t, lines[1])
		return ""
	}
	as, ok := strings.CutPrefix(lines[0], "as: ")
	require.True(t, ok, "%s: want as: and a request", title)
	a := c.ask(t, as, lines[1], body, lines[2:]...)
	c.spec.requireConforms(t, lines[1], a)
	return c.format(a)
}

// format returns an answer as the files have it.
func (c *conversation) format(a answer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "< %d %s\n", a.status, http.StatusText(a.status))
	for _, name := range shownHeaders {
		for _, value := range a.header.Values(name) {
			fmt.Fprintf(&b, "< %s: %s\n", name, c.names.header(name, value))
		}
	}
	if id := a.header.Get("X-Request-Id"); id != "" && !idPattern.MatchString(id) { // it was sent by the caller
		fmt.Fprintf(&b, "< X-Request-Id: %s\n", id)
	}
	switch {
	case a.header.Get("Location") != "" && a.status != http.StatusCreated: // browsers do not show the body of a redirect
	case strings.HasPrefix(a.header.Get("Content-Type"), "text/html"):
		b.WriteString(c.names.hide(visibleText(a.body)) + "\n")
	case a.body != "":
		b.WriteString(c.names.hide(a.body) + "\n")
	}
	return b.String()
}

var (
	markup = regexp.MustCompile(`(?s)<head>.*</head>|<[^>]*>`)
	spaces = regexp.MustCompile(`\s*\n\s*`)
)

// visibleText returns the text of a page without markup.
func visibleText(page string) string {
	text := html.UnescapeString(markup.ReplaceAllString(page, "\n"))
	return strings.TrimSpace(spaces.ReplaceAllString(text, "\n"))
}

// execute executes an SQL statement in the service's database.
func (c *conversation) execute(t *testing.T, statement string) {
	db, err := pgx.Connect(t.Context(), c.database)
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	_, err = db.Exec(t.Context(), statement)
	require.NoError(t, err)
}

// postToCodeHost sends a form to the code host. line is method and URL.
func (c *conversation) postToCodeHost(t *testing.T, line, form string) answer {
	method, address, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := c.client.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	return answer{status: res.StatusCode, header: res.Header}
}

// shownHeaders are the headers that the files contain. Others are the same in every answer.
var shownHeaders = []string{
	"Content-Type", "Content-Disposition", "Cache-Control", "Allow", "Location", "WWW-Authenticate", "Retry-After", "ETag", "X-Svc-Poll-After",
	"Set-Cookie", "X-Svc-Position", "Idempotency-Replayed",
}
