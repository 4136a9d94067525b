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

const maxPooledBuffer = 256 << 10 // bytes; larger ones are left to the collector

// write renders a page whole before anything of it is sent, so that one that fails is
// not half a page.
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
	if err := shown.Render(v.Context(), text); err != nil {
		a.Log.ErrorContext(v.Context(), "render a page", "path", v.URL.Path, "err", err)
		http.Error(w, "The page could not be shown.", http.StatusInternalServerError)
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
	send(w, v, status, text.Bytes())
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

// send writes an answer, compressed for who takes that. What is shown only once is not
// compressed: the length would tell about secrets beside what the address says. Of other
// pages it tells less because of a comment of random length.
func send(w http.ResponseWriter, v *Visit, status int, text []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(text) < minGzip || v.route.Stay || !strings.Contains(v.Request.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(text) // if it fails the browser has gone
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := gzipWriters.Get().(*gzip.Writer)
	defer func() {
		z.Reset(io.Discard) // which does not keep the answer
		gzipWriters.Put(z)
	}()
	z.Reset(w)
	z.Comment = strings.Repeat(" ", rand.IntN(maxPadding))
	_, _ = z.Write(text)
	_ = z.Close()
}
