package insights

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShortDurations(t *testing.T) {
	t.Parallel()
	for d, text := range map[time.Duration]string{
		40 * time.Second: "40s", 90 * time.Second: "1m 30s", 192 * time.Minute: "3h 12m", 4 * time.Hour: "4h", 51 * time.Hour: "2d 3h", 0: "0s",
	} {
		require.Equal(t, text, shortDuration(d))
	}
}
