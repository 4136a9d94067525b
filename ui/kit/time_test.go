package kit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/kit"
)

func TestLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		31*time.Hour + 50*time.Minute: "31 h", time.Hour: "1 h", 59*time.Minute + 59*time.Second: "59 min",
		time.Minute: "1 min", time.Second: "1 min",
	} {
		require.Equal(t, want, kit.Left(d), d)
	}
}
