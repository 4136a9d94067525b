// Package leak fails tests that leave goroutines behind. It gives them time to
// end: goleak itself looks for less than half a second, in which a goroutine that
// is about to end may not get a processor on a busy machine.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const limit = time.Minute

// Main runs the tests of a package, fails if they leave goroutines behind, and
// exits.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := find(); err != nil {
			fmt.Fprintln(os.Stderr, "leak:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// None fails t if there are goroutines other than the expected ones, which
// usually are those of goleak.IgnoreCurrent at the beginning of the test.
func None(t testing.TB, expected ...goleak.Option) {
	t.Helper()
	require.NoError(t, find(expected...))
}

func find(expected ...goleak.Option) (err error) {
	for late := time.Now().Add(limit); ; {
		if err = goleak.Find(expected...); err == nil || time.Now().After(late) {
			return err
		}
	}
}
