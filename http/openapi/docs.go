package openapi

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"html/template"
	"io"
	"math"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/swaggest/swgui/v5/static"

	"svc/http/middleware"
)

// docsPage is Swagger UI, embedded in the binary. It loads nothing from other sites, and its
// Content-Security-Policy forbids it.
var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} API</title>
<link rel="icon" href="{{.Docs}}/favicon-32x32.png">
<link rel="stylesheet" href="{{.Docs}}/swagger-ui.css">
<div id="docs"></div>
<script src="{{.Docs}}/swagger-ui-bundle.js"></script>
<script src="{{.Docs}}/start.js"></script>
</html>
`))

const (
	docsScript = `SwaggerUIBundle({url: %q, dom_id: "#docs", deepLinking: true, tryItOutEnabled: true, validatorUrl: null});
`
	docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// serveDocs serves the page that shows a document, and its assets.
func (a *API) serveDocs(docs, document string) {
	var page bytes.Buffer
	if err := docsPage.Execute(&page, map[string]string{"Title": a.huma.OpenAPI().Info.Title, "Docs": docs}); err != nil {
		panic(err) // the template is constant
	}
	a.Get(docs, middleware.Limits{Policy: docsPolicy}, serveText("text/html; charset=utf-8", page.Bytes))
	script := func() []byte { return fmt.Appendf(nil, docsScript, document) }
	a.Get(docs+"/start.js", middleware.Limits{}, serveText("text/javascript; charset=utf-8", script))
	for _, name := range []string{"swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"} {
		a.Get(docs+"/"+name, middleware.Limits{}, asset(name))
	}
}

// asset serves a file of Swagger UI, which is stored compressed.
func asset(name string) http.HandlerFunc {
	packed, err := static.FS.ReadFile(name + ".gz")
	plain := err != nil
	if plain {
		packed, err = static.FS.ReadFile(name)
	}
	if err != nil {
		panic(err) // the pinned module has the file
	}
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		h.Set("Cache-Control", "public, max-age=86400")
		h.Set("Vary", "Accept-Encoding")
		switch {
		case plain:
			_, _ = w.Write(packed)
		case middleware.WantsGzip(r.Header, math.MaxInt):
			h.Set("Content-Encoding", "gzip")
			h.Set("Content-Length", strconv.Itoa(len(packed)))
			_, _ = w.Write(packed)
		default:
			if unpacked, err := gzip.NewReader(bytes.NewReader(packed)); err == nil {
				_, _ = io.Copy(w, unpacked) //nolint:gosec // it is embedded in the binary
			}
		}
	}
}
