package farm

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gorilla/websocket"

	"svc/farm/dispatch"
	"svc/farm/wire"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
)

// Errors of connecting a runner.
var (
	errProtocol = fault.New(fault.Malformed, "protocol_unsupported", "Sec-WebSocket-Protocol has to offer a protocol that is supported.").
			With("supported", []string{wire.Version})
	errNoUpgrade = fault.New(fault.Malformed, "upgrade_required", "This route is a WebSocket: the headers of an upgrade to one are needed.")
	errOrigin    = fault.New(fault.Denied, "cross_origin_refused", "This request came from a browser: runners send no Origin.")
)

// agentLimits let the handler hijack the connection. The time limit applies only to the request.
var agentLimits = middleware.Limits{Hijack: true}

func (s *Server) agentRoute() openapi.Mounted {
	return openapi.Mounted{Operation: openapi.Operation{
		Method: "GET", Path: prefix + "/agent", Limits: agentLimits, Guard: s.admitAgent,
		ID: "connectRunner", Tag: "Build farm", Summary: "Connect a runner",
		Description: "A WebSocket with the subprotocol `" + wire.Version +
			"`, by which a runner says that it lives and what becomes of its jobs, " +
			"and is given jobs. A newer connection of the same runner closes the one before it. A request with an `Origin` is refused.\n\n" +
			forRunners,
		Faults: append(commonFaults(), ErrCertificateRequired, errRunnerSuspended, errRunnerRevoked, errRunnerRetired, errWorkspaceGone,
			errProtocol, errNoUpgrade, errOrigin, dispatch.ErrFull, dispatch.ErrClosing),
		Security: certificateSecurity,
		Parameters: []*huma.Param{{
			Name: "Sec-WebSocket-Protocol", In: "header", Required: true, Description: "Protocols that the runner speaks, with commas between.",
			Schema: &huma.Schema{Type: "string", Examples: []any{wire.Version}}, Example: wire.Version,
		}},
		Status:    http.StatusSwitchingProtocols,
		Responses: map[string]*huma.Response{"101": {Description: "The connection is a WebSocket from here on."}},
	}, Handler: openapi.Handle(s.agent)}
}

// admitAgent admits a runner before the upgrade, so that a refusal is a normal HTTP answer.
func (s *Server) admitAgent(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
	ctx, done, err := s.Admit(1)(w, r)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case len(r.Header.Values("Origin")) > 0:
		err = errOrigin
	case !websocket.IsWebSocketUpgrade(r):
		err = errNoUpgrade
	case !slices.Contains(websocket.Subprotocols(r), wire.Version):
		err = errProtocol
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return ctx, done, nil
}

type agentQuery struct{}

func (s *Server) agent(ctx context.Context, _ *agentQuery) (*huma.StreamResponse, error) {
	runner := RunnerOf(ctx)
	release, err := s.Dispatcher.Reserve(runner.Workspace)
	if err != nil {
		return nil, err
	}
	return openapi.Stream(func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{
			HandshakeTimeout: wire.WriteTimeout, Subprotocols: []string{wire.Version}, ReadBufferSize: readBufferSize,
			WriteBufferPool: &s.buffers, WriteBufferSize: writeBufferSize,
			CheckOrigin: func(*http.Request) bool { return true }, // admitAgent refuses any Origin
			Error: func(w http.ResponseWriter, r *http.Request, _ int, why error) {
				reply.Error(w, r, s.Log, errNoUpgrade)
			},
		}
		socket, err := up.Upgrade(hijacker{w}, r, nil)
		if err != nil {
			release()
			s.Log.DebugContext(r.Context(), "a runner was not connected", "err", err)
			return
		}
		s.Dispatcher.Serve(socket, runner.Runner, release)
	}), nil
}

// Buffer sizes in bytes. Each connection has a read buffer; write buffers are pooled.
const readBufferSize, writeBufferSize = 1 << 10, 4 << 10

// A hijacker makes a wrapped ResponseWriter an [http.Hijacker].
type hijacker struct{ http.ResponseWriter }

// Hijack implements [http.Hijacker].
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}
