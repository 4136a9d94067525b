// Package serve runs an HTTP server, from listening to graceful shutdown.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"svc/config"
)

// Listen listens on addr, or on the inherited socket that it names. Its errors name the environment
// variable that addr came from.
func Listen(ctx context.Context, variable string, addr config.Addr) (net.Listener, error) {
	if n, handed := addr.FD(); handed {
		return inheritedListener(variable, n)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", string(addr))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: the address %s is in use by another program", variable, addr)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return ln, nil
}

func inheritedListener(variable string, n uintptr) (net.Listener, error) {
	listens, err := syscall.GetsockoptInt(int(n), syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	if err == nil && listens == 0 { // the descriptor is something else
		err = syscall.EINVAL
	}
	if err != nil {
		return nil, fmt.Errorf("%s: no listening socket was handed down as file %d: %w", variable, n, err)
	}
	f := os.NewFile(n, variable)
	defer f.Close() // the listener has duplicated it
	return net.FileListener(f)
}

// A Server serves HTTP requests with Handler.
//
// It limits how long a request's header may take and how long a connection may be idle. Bodies and
// answers have no time limit, since some are streams: handlers set deadlines with
// [http.ResponseController].
type Server struct {
	Handler   http.Handler
	Log       *slog.Logger
	StopLimit time.Duration     // for requests in flight at shutdown; 10 s if 0
	HTTP2     *http.HTTP2Config // for TLS listeners; nil is the defaults of net/http
}

// Run serves ln until ctx is done, and then shuts down: it accepts no connections and waits for the
// requests in flight. Those that take longer than StopLimit are cut off, with a warning.
func (s Server) Run(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		HTTP2:             s.HTTP2,

		DisableGeneralOptionsHandler: true, // the handler answers OPTIONS * too
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	s.Log.Info("listening", "address", ln.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()

	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.Log.Info("stopping")
	s.stop(srv)
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		s.Log.Warn("stopped listening", "err", err)
	}
	s.Log.Info("stopped")
	return nil
}

func (s Server) stop(srv *http.Server) {
	limit := cmp.Or(s.StopLimit, 10*time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		s.Log.Warn("requests cut off", "limit", limit.String(), "err", err)
		_ = srv.Close()
	}
}
