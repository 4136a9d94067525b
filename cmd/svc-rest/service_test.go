package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"svc/config"
	"svc/metrics"
	"svc/test/leak"
)

// If a service cannot be created, no pool stays open.
func TestFailedServiceLeavesNoPoolOpen(t *testing.T) {
	current := goleak.IgnoreCurrent()
	const address = "postgres://svc:word@127.0.0.1/svc"
	for name, more := range map[string][]string{
		"no replica":        {"SVC_DATABASE_READ_URL=" + address + "?pool_max_conns=none"},
		"no direct address": {"SVC_DATABASE_READ_URL=" + address, "SVC_DATABASE_DIRECT_URL=" + address + "?pool_max_conns=none"},
	} {
		cfg, err := config.Parse[Config](append([]string{
			"SVC_DATABASE_URL=" + address, "SVC_ENGINE_URL=http://127.0.0.1:4001",
			"SVC_ENGINE_SHARED_SECRET=" + strings.Repeat("e", 16), "AUTH_URL=https://svc.example.com",
			"AUTH_SECRET=" + strings.Repeat("a", 32), "SVC_VAULT_MASTER_KEY=" + strings.Repeat("v", 32),
		}, more...))
		require.NoError(t, err, name)
		_, err = newService(t.Context(), cfg, metrics.New("svc-rest", "test"), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "is malformed", name)
	}
	leak.None(t, current)
}
