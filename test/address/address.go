// Package address finds addresses for programs that tests start, where the
// program cannot be asked which one it took.
package address

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// Free returns an address that stays free until it is used, and between a
// program's end and its next start: the system takes the near ends of
// connections, and the ports that are asked for as 0, from higher ones.
func Free(t testing.TB) string {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000)))
		if err == nil {
			require.NoError(t, ln.Close())
			return ln.Addr().String()
		}
	}
	require.FailNow(t, "no free address")
	return ""
}
