package engine

import (
	"log/slog"

	"svc/config"
)

// Config is the environment of svc-engine.
type Config struct {
	// Only the REST service calls the engine: keep the address internal.
	Addr config.Addr `env:"SVC_ENGINE_ADDR" envDefault:":4001" doc:"Address to listen on. Internal only."`

	// Metrics show how busy the engine is: keep the address internal.
	MetricsAddr config.Addr `env:"SVC_METRICS_ADDR" doc:"Address to serve Prometheus metrics on, at /metrics. Unset, there are none. Internal only."`

	// The secret authorizes requests to the engine.
	SharedSecret config.Secret `env:"SVC_ENGINE_SHARED_SECRET,required,notEmpty" min:"16" doc:"Must hold the same value in the REST service and the engine."`

	// Copies of repositories. It may be emptied while no engine runs, and costs only fetching.
	Dir string `env:"SVC_ENGINE_DIR" doc:"Folder for copies of repositories. They are fetched again if it is emptied. Defaults to svc-engine in the user's cache folder."`

	// Without it a repository's address cannot lead to services of this machine.
	AllowLocal bool `env:"SVC_ENGINE_ALLOW_LOCAL" envDefault:"false" doc:"Allow code hosts on this machine, and without https. For development."`

	LogLevel slog.Level `env:"SVC_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}
