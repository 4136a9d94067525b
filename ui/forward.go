package ui

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// forward proxies sign-in requests to the REST service, with the service's limit of a body.
func forward(rest *url.URL, log *slog.Logger) http.Handler {
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
			if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
				reply.Error(w, r, log, reply.TooLarge(large.Limit))
				return
			}
			log.ErrorContext(r.Context(), "forward sign-in", "path", r.URL.Path, "err", err)
			reply.Error(w, r, log, fault.ErrUnavailable)
		},
	}
	return middleware.Limited(middleware.Limits{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := proxy
		p.ModifyResponse = func(res *http.Response) error {
			for name := range res.Header { // the service's headers replace the app's
				w.Header().Del(name)
			}
			return nil
		}
		p.ServeHTTP(w, r)
	}))
}
