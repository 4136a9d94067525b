package rest

import (
	"bytes"
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/julienschmidt/httprouter"
	"github.com/swaggest/swgui/v5/static"
)

// The documentation page is Swagger UI from the binary. It asks no other site
// for anything, and its policy forbids it to.
const (
	docsPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Workspace Service API</title>
<link rel="icon" href="/api/docs/favicon-32x32.png">
<link rel="stylesheet" href="/api/docs/swagger-ui.css">
<div id="docs"></div>
<script src="/api/docs/swagger-ui-bundle.js"></script>
<script src="/api/docs/start.js"></script>
</html>
`
	docsScript = `SwaggerUIBundle({url: "/api/openapi.json", dom_id: "#docs", deepLinking: true, tryItOutEnabled: true, validatorUrl: null});
`
	docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)

func serveDocs(mux *httprouter.Router) {
	page := content("text/html; charset=utf-8", []byte(docsPage))
	get(mux, "/api/docs", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		page(w, r)
	})
	get(mux, "/api/docs/start.js", content("text/javascript; charset=utf-8", []byte(docsScript)))
	for _, name := range []string{"swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"} {
		get(mux, "/api/docs/"+name, asset(name))
	}
}

// asset serves a file of Swagger UI, which is kept compressed.
func asset(name string) http.HandlerFunc {
	packed, err := static.FS.ReadFile(name + ".gz")
	plain := err != nil
	if plain {
		packed, err = static.FS.ReadFile(name)
	}
	if err != nil {
		panic(err) // the module that we pinned has it
	}
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		h.Set("Cache-Control", "public, max-age=86400")
		h.Set("Vary", "Accept-Encoding")
		switch {
		case plain:
			_, _ = w.Write(packed)
		case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			h.Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
		default:
			if unpacked, err := gzip.NewReader(bytes.NewReader(packed)); err == nil {
				_, _ = io.Copy(w, unpacked) //nolint:gosec // it is a file of our own binary
			}
		}
	}
}
