package leak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// A goroutine that ends after goleak's own timeout is not reported.
func TestEndingGoroutineIsAwaited(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end := make(chan struct{})
	go func() { <-end }()
	require.Error(t, goleak.Find(before), "it is seen")
	time.AfterFunc(time.Second, func() { close(end) })
	None(t, before)
}
