package kit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for n, text := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		require.Equal(t, text, Number(n))
	}
	require.Equal(t, "1 run", Count(1, "run", "runs"))
	require.Equal(t, "1,230 runs", Count(1230, "run", "runs"))
	require.Equal(t, "101 to 130 of 1,130", Part(100, 30, 1130))
	require.Equal(t, "none of 3", Part(100, 0, 3))
}
