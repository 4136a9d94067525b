package middleware

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const (
	minGzip    = 1400 // bytes; less fits into a packet as it is
	maxPadding = 128  // bytes at most
)

// WantsGzip reports whether an answer of size bytes should be compressed for a request. Small ones are
// only if the request refuses them as they are.
func WantsGzip(h http.Header, size int) bool {
	lines := h["Accept-Encoding"]
	if len(lines) == 0 {
		return false
	}
	zipped, plain, others := -1.0, -1.0, -1.0 // -1: not named
	for coding := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		name, parameters, _ := strings.Cut(coding, ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(parameters, " ", "")), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64)
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			zipped = max(zipped, weight)
		case "identity":
			plain = weight
		case "*":
			others = weight
		}
	}
	if zipped < 0 {
		zipped = others
	}
	refused := plain == 0 || plain < 0 && others == 0
	return zipped > 0 && (refused || size >= minGzip && zipped >= plain)
}

var gzipWriters = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is one
	}
	return z
}}

// GzipPrivate returns text compressed quickly. What shows a secret must not be compressed: its length would
// reveal how much the secret has in common with the query. Against the same attack on what is private, the
// gzip header has a comment of random length.
func GzipPrivate(text []byte) []byte {
	var out bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(&out)
	z.Comment = strings.Repeat(" ", rand.IntN(maxPadding))
	_, _ = z.Write(text) // memory takes everything
	_ = z.Close()
	z.Reset(io.Discard) // drops the reference to out
	gzipWriters.Put(z)
	return out.Bytes()
}

// Gzip returns public text, compressed as far as it can be.
func Gzip(text []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is one
	}
	_, _ = z.Write(text) // memory takes everything
	_ = z.Close()
	return out.Bytes()
}

// MatchesETag reports whether an If-None-Match header has a tag, weakly compared, or is *.
func MatchesETag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}
