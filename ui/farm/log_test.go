package farm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// ndjson is what the service says of lines: texts that begin with a "+" go on.
func ndjson(from int64, texts ...string) *strings.Reader {
	var out strings.Builder
	for _, text := range texts {
		text, partial := strings.CutPrefix(text, "+")
		quoted, _ := json.Marshal(text)
		fmt.Fprintf(&out, `{"offset":%d,"at":"2026-11-20T23:56:25.123Z","text":%s,"partial":%t}`+"\n", from, quoted, partial)
		from += 10
	}
	return strings.NewReader(out.String())
}

func (p *logPart) texts() (list []string) {
	for _, l := range p.Lines {
		list = append(list, l.Text)
	}
	return list
}

// The next part is asked for by where the last line begins: what a line lost on the way,
// such as a carriage return or half a character, does not shift it.
func TestPartsFollowEachOther(t *testing.T) {
	t.Parallel()
	p := logPart{Attempt: 2, Live: true}
	require.NoError(t, p.read(ndjson(0, "a", "b", "+c")))
	require.Equal(t, []string{"a", "b"}, p.texts(), "a line that grows is left")
	next := p.next()
	require.Equal(t, "?attempt=2&from=10&cut=on", next.query())
	require.NoError(t, next.read(ndjson(10, "b", "c")))
	require.Equal(t, []string{"c"}, next.texts())
	require.Equal(t, "?attempt=2&from=20&cut=on", next.next().query())
	nothing := logPart{From: 20, Cut: true, Attempt: 2, Live: true}
	require.NoError(t, nothing.read(ndjson(20, "c")))
	require.Equal(t, "?attempt=2&from=20&cut=on", nothing.next().query())
}

func TestALineThatIsTooLongComesInParts(t *testing.T) {
	t.Parallel()
	p := logPart{Live: true}
	require.NoError(t, p.read(ndjson(0, "+begun", "+goes on", "end", "+grows")))
	require.Equal(t, []string{"begun", "goes on", "end"}, p.texts())
	p = logPart{}
	require.NoError(t, p.read(ndjson(0, "+without an end")))
	require.Equal(t, []string{"without an end"}, p.texts())
}

func TestWhatCameBeforeIsAskedFor(t *testing.T) {
	t.Parallel()
	end := logPart{From: 3 * tail, Cut: true}
	require.NoError(t, end.read(ndjson(3*tail, "half", "x", "y")))
	require.Equal(t, []string{"x", "y"}, end.texts())
	before, ok := end.before()
	require.True(t, ok)
	require.Equal(t, logPart{From: 2 * tail, Cut: true, To: 3*tail + 10}, *before)
	require.NoError(t, before.read(ndjson(3*tail-10, "w", "half", "x")))
	require.Equal(t, []string{"half"}, before.texts(), "it ends where the other begins")
	first, ok := (&logPart{From: 10, Cut: true, To: 20}).before()
	require.True(t, ok)
	require.Equal(t, logPart{To: 20}, *first)
	_, ok = first.before()
	require.False(t, ok)
}

func TestAPartHasAnEnd(t *testing.T) {
	t.Parallel()
	p := logPart{}
	require.NoError(t, p.read(ndjson(0, make([]string, perPart+1)...)))
	require.Len(t, p.Lines, perPart)
	require.True(t, p.Full)
	p = logPart{}
	require.NoError(t, p.read(ndjson(0, make([]string, perPart)...)))
	require.False(t, p.Full)
}

// A log that was removed is not one of which nothing was written.
func TestALogThatWasRemoved(t *testing.T) {
	t.Parallel()
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"code":"log_removed","message":"This log was removed: logs of jobs are kept for 30 days.",`+
			`"details":{"keptDays":30}}`)
	}))
	t.Cleanup(rest.Close)
	r := httptest.NewRequest(http.MethodGet, "/w/acme/farm/jobs/1/lines?first=on", nil)
	p, err := lines(&page.Visit{Request: r, API: client.NewService(rest.URL).For(r, "acme")})
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, p.Part.Render(t.Context(), &text))
	require.Contains(t, text.String(), "This log was removed: logs of jobs are kept for 30 days.")
	require.NotContains(t, text.String(), "hx-get", "nothing follows")
}
