package page

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
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
	if shown == nil {
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

const (
	minGzip    = 1400 // bytes; less fits into a packet as it is
	maxPadding = 128  // bytes at most
)

var gzipWriters = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is one
	}
	return z
}}

// writeBody writes an answer, compressed if the browser accepts gzip. Pages with a secret
// are not compressed: their length would reveal how much the secret has in common with the
// query. Other pages get a comment of random length in the gzip header, against the same attack.
func writeBody(w http.ResponseWriter, v *Visit, status int, text []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(text) < minGzip || v.route.ShowsSecret || !strings.Contains(v.Request.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(text) // if it fails the browser has gone
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := gzipWriters.Get().(*gzip.Writer)
	defer func() {
		z.Reset(io.Discard) // drops the reference to w
		gzipWriters.Put(z)
	}()
	z.Reset(w)
	z.Comment = strings.Repeat(" ", rand.IntN(maxPadding))
	_, _ = z.Write(text)
	_ = z.Close()
}
