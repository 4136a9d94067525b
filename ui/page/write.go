package page

import (
	"bytes"
	"net/http"
	"sync"

	"svc/http/middleware"
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const maxPooledBuffer = 256 << 10 // bytes; larger buffers are garbage collected

// write renders the whole page before it sends anything, so that a failing template never
// sends half a page.
func (a *App) write(w http.ResponseWriter, v *Visit, p Page) {
	text := buffers.Get().(*bytes.Buffer)
	text.Reset()
	defer func() {
		if text.Cap() <= maxPooledBuffer {
			buffers.Put(text)
		}
	}()
	shown := p.Part
	switch {
	case shown == nil:
		shown = shell(a, v, p)
	case !v.FromHTMX(): // the address of the part was opened by itself
		p.Main = p.Part
		shown = shell(a, v, p)
	}
	v.Now = a.Now() // what is shown may have been waited for, and be newer than the request
	if err := shown.Render(v.Context(), text); err != nil {
		a.Log.ErrorContext(v.Context(), "render a page", "path", v.URL.Path, "err", err)
		http.Error(w, "The page could not be shown.", http.StatusInternalServerError)
		return
	}
	a.setCookies(w, v)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	if v.FromHTMX() {
		v.notice.setHeader(h)
	}
	status := p.Status
	switch {
	case status != 0:
	case v.notice.Bad:
		status = http.StatusConflict
	default:
		status = http.StatusOK
	}
	writeBody(w, v, status, withPerson(text.Bytes(), v.Person.User.ID))
}

// writeBody writes an answer, compressed if the browser accepts gzip and the page shows no secret.
func writeBody(w http.ResponseWriter, v *Visit, status int, text []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if !v.route.ShowsSecret && middleware.WantsGzip(v.Request.Header, len(text)) {
		w.Header().Set("Content-Encoding", "gzip")
		text = middleware.GzipPrivate(text)
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // if it fails the browser has gone
}
