// Package address finds addresses for programs that tests start, where the
// program cannot be asked which one it took.
package address

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// given are the addresses that this process has had.
var given sync.Map

// Free returns an address that stays free until it is used, and between a
// program's end and its next start: it is below the ports of which the system
// takes the near ends of connections, and those that are asked for as 0.
func Free(t testing.TB) string {
	t.Helper()
	least := 32_768 // as Linux has it where nobody says otherwise
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, err = fmt.Sscan(string(text), &least)
		require.NoError(t, err)
	}
	const unprivileged = 1024
	low := max(unprivileged, least-12_000)
	for range 100 {
		port := low + rand.IntN(max(least-low, 10_000)) // or among the system's, if it takes all
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		require.NoError(t, ln.Close())
		if _, had := given.LoadOrStore(ln.Addr().String(), true); !had {
			return ln.Addr().String()
		}
	}
	require.FailNow(t, "no free address")
	return ""
}
