package page

import (
	"bytes"
	"net/http"
	"sync"
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keptBuffer = 256 << 10 // bytes; larger ones are left to the collector

// write renders a page whole before anything of it is sent, so that one that fails is
// not half a page.
func (a *App) write(w http.ResponseWriter, v *Visit, p Page) {
	text := buffers.Get().(*bytes.Buffer)
	text.Reset()
	defer func() {
		if text.Cap() <= keptBuffer {
			buffers.Put(text)
		}
	}()
	shown := p.Part
	if shown == nil {
		shown = shell(a, v, p)
	}
	if err := shown.Render(v.Context(), text); err != nil {
		a.Log.ErrorContext(v.Context(), "render a page", "path", v.URL.Path, "err", err)
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	a.setCookies(w, v)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	if v.Swapped() {
		v.notice.tell(h)
	}
	status := p.Status
	switch {
	case status != 0:
	case v.notice.Bad:
		status = http.StatusConflict
	default:
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // if it fails the browser has gone
}
