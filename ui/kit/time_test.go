package kit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/kit"
)

// What has 48 hours from now on says so a moment later.
func TestAgo(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		48*time.Hour - time.Second: "in 48 hours", 47*time.Hour + 20*time.Minute: "in 47 hours", 30 * 24 * time.Hour: "in 30 days",
		72 * time.Hour: "in 3 days", time.Hour + time.Second: "in 1 hour", 59*time.Minute + 50*time.Second: "in 60 minutes",
		40 * time.Second: "in 40 seconds", 0: "just now", -30 * time.Hour: "yesterday", -49 * time.Hour: "2 days ago",
		-90 * time.Second: "1 minute ago", -time.Hour: "1 hour ago", -10 * time.Second: "10 seconds ago",
	} {
		require.Equal(t, want, kit.Ago(now.Add(d), now), d)
	}
}

func TestLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		31*time.Hour + 50*time.Minute: "31 h", time.Hour: "1 h", 59*time.Minute + 59*time.Second: "59 min",
		time.Minute: "1 min", time.Second: "1 min",
	} {
		require.Equal(t, want, kit.Left(d), d)
	}
}
