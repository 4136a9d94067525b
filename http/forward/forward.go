// Package forward passes requests to the web app that are for the REST service on to it.
package forward

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// To returns a proxy to the REST service, with limits that are the service's.
func To(rest *url.URL, limits middleware.Limits, log *slog.Logger) http.Handler {
	proxy := httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(rest)
			r.Out.Host = r.In.Host // the service compares Origin with it
			r.Out.Header.Del("Forwarded")
			r.Out.Header.Del(middleware.OriginHeader) // only the app may set it
			r.Out.Header.Set("X-Forwarded-For", middleware.Address(r.In))
			r.Out.Header.Set("X-Request-Id", middleware.RequestID(r.In.Context()))
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			large, tooLarge := errors.AsType[*http.MaxBytesError](err)
			switch {
			case tooLarge:
				err = reply.TooLarge(large.Limit)
			case r.Context().Value(bodyKey{}).(*body).failed.Load(): // the client has gone, or does not speak HTTP
				err = errBody
			case errors.Is(r.Context().Err(), context.Canceled): // the client has gone
				err = r.Context().Err()
			default:
				log.ErrorContext(r.Context(), "forward a request", "path", r.URL.Path, "err", err)
				err = fault.ErrUnavailable
			}
			reply.Error(w, r, log, err)
		},
	}
	return middleware.Limited(limits, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := proxy
		p.ModifyResponse = func(res *http.Response) error {
			for name := range res.Header { // the service's headers replace the app's
				w.Header().Del(name)
			}
			return nil
		}
		sent := &body{ReadCloser: r.Body}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, sent))
		if r.ContentLength != 0 { // otherwise the proxy tells by it that there is none
			r.Body = sent
		}
		p.ServeHTTP(w, r)
	}))
}

var errBody = fault.Field("body", "could not be read")

type bodyKey struct{}

// A body records whether the client failed to send it. The transport may still read while the handler answers.
type body struct {
	io.ReadCloser
	failed atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) { // which the transport causes itself
		b.failed.Store(true)
	}
	return n, err
}
