package gateway

import (
	"errors"
	"log/slog"
	"time"

	"svc/config"
)

// Config is the configuration of svc-gateway, read from environment variables.
type Config struct {
	// The farm needs a host name of its own, so that browsers send it no cookies.
	Addr config.Addr `env:"SVC_GATEWAY_ADDR" envDefault:":4443" doc:"Address to listen on, with TLS."`

	// Both files are reloaded when they change.
	CertFile string        `env:"SVC_GATEWAY_TLS_CERT,required,notEmpty" doc:"PEM file of the certificate with its chain; reloaded when it changes."`
	KeyFile  config.Secret `env:"SVC_GATEWAY_TLS_KEY,required,notEmpty" doc:"PEM file of its private key; reloaded when it changes."`

	RestURL config.URL `env:"SVC_GATEWAY_REST_URL,required,notEmpty" schemes:"http,https" doc:"Address of svc-rest: a scheme and a host alone."`

	ClientCertHeader config.HeaderName `env:"SVC_FARM_CLIENT_CERT_HEADER" envDefault:"X-Svc-Client-Cert" doc:"Header in which a runner's certificate is forwarded. Must be the same in the REST service."`

	ArtifactMaxJobBytes int64 `env:"SVC_ARTIFACT_MAX_JOB_BYTES" envDefault:"268435456" doc:"Bytes of artifacts that a job may have. Must be the same in the REST service."`

	// Behind a load balancer that hides addresses, all connections come from one address: set the limit
	// per address to the total.
	MaxConnections           int           `env:"SVC_GATEWAY_MAX_CONNECTIONS" envDefault:"20000" doc:"Connections at once; others are closed."`
	MaxConnectionsPerAddress int           `env:"SVC_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS" envDefault:"2000" doc:"Connections at once from one address; an IPv6 /64 counts as one."`
	MaxHandshakes            int           `env:"SVC_GATEWAY_MAX_HANDSHAKES" envDefault:"500" doc:"TLS handshakes at once, a quarter of them from one address."`
	HandshakeTimeout         time.Duration `env:"SVC_GATEWAY_HANDSHAKE_TIMEOUT" envDefault:"10s" doc:"How long a TLS handshake may take."`

	// Keep this address internal: it shows how busy the gateway is.
	MetricsAddr config.Addr `env:"SVC_METRICS_ADDR" doc:"Address to serve Prometheus metrics on, at /metrics. Unset, there are none. Internal only."`

	LogLevel slog.Level `env:"SVC_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}

// Check returns an error if a well-formed value cannot work.
func (c Config) Check() error {
	switch {
	case !c.RestURL.IsOrigin():
		return errors.New("SVC_GATEWAY_REST_URL is malformed: want a scheme and a host alone")
	case c.ArtifactMaxJobBytes < 1 || c.ArtifactMaxJobBytes > 1<<40:
		return errors.New("SVC_ARTIFACT_MAX_JOB_BYTES is malformed: want 1 or more, and at most a tebibyte")
	case c.MaxConnections < 1:
		return errors.New("SVC_GATEWAY_MAX_CONNECTIONS is malformed: want 1 or more")
	case c.MaxConnectionsPerAddress < 1:
		return errors.New("SVC_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS is malformed: want 1 or more")
	case c.MaxHandshakes < 1:
		return errors.New("SVC_GATEWAY_MAX_HANDSHAKES is malformed: want 1 or more")
	case c.HandshakeTimeout < time.Second || c.HandshakeTimeout > time.Minute:
		return errors.New("SVC_GATEWAY_HANDSHAKE_TIMEOUT is malformed: want 1s to 1m")
	}
	return nil
}

// Bounds returns the limits of the listener.
func (c Config) Bounds() Bounds {
	return Bounds{
		Connections: c.MaxConnections, PerAddress: c.MaxConnectionsPerAddress, Handshakes: c.MaxHandshakes, HandshakeTimeout: c.HandshakeTimeout,
	}
}
