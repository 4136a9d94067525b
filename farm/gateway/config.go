package gateway

import (
	"errors"
	"log/slog"

	"svc/config"
)

// Config is the environment of svc-gateway.
type Config struct {
	// It has a name of its own: no browser's cookies belong there.
	Addr config.Addr `env:"SVC_GATEWAY_ADDR" envDefault:":4443" doc:"Address to listen on, with TLS."`

	// Read again when they change.
	CertFile string        `env:"SVC_GATEWAY_TLS_CERT,required,notEmpty" doc:"File of the gateway's certificate with its chain, in PEM."`
	KeyFile  config.Secret `env:"SVC_GATEWAY_TLS_KEY,required,notEmpty" doc:"File of its private key, in PEM."`

	RestURL config.URL `env:"SVC_GATEWAY_REST_URL,required,notEmpty" schemes:"http,https" doc:"Where the REST service is reached."`

	ClientCertHeader config.HeaderName `env:"SVC_FARM_CLIENT_CERT_HEADER" envDefault:"X-Svc-Client-Cert" doc:"Header in which a runner's certificate is forwarded. Must be the same in the REST service."`

	ArtifactMaxJobBytes int64 `env:"SVC_ARTIFACT_MAX_JOB_BYTES" envDefault:"268435456" doc:"Bytes of artifacts that a job may have. Must be the same in the REST service."`

	// Whoever reaches it learns how busy the gateway is: keep the address internal.
	MetricsAddr config.Addr `env:"SVC_METRICS_ADDR" doc:"Address to serve Prometheus metrics on, at /metrics. Unset, there are none. Internal only."`

	LogLevel slog.Level `env:"SVC_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}

// Check refuses what is well-formed but cannot work.
func (c Config) Check() error {
	u := c.RestURL.URL()
	switch {
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return errors.New("SVC_GATEWAY_REST_URL is malformed: want a scheme and a host alone")
	case c.ArtifactMaxJobBytes < 1 || c.ArtifactMaxJobBytes > 1<<40:
		return errors.New("SVC_ARTIFACT_MAX_JOB_BYTES is malformed: want 1 or more, and at most a tebibyte")
	}
	return nil
}
