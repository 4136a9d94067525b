package outcome

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailure(t *testing.T) {
	const most = 32 << 10
	failure := func(log string) string { return Failure([]byte(log), most) }
	const log = "=== RUN TestSum\n    sum_test.go:12: 0xc00012 in /tmp/build-a1/x: want 4\n--- FAIL: TestSum (0.01s)\nFAIL svc/sum 1m2.5s\n"
	for name, c := range map[string]struct {
		log  string
		same bool
	}{
		"the same":       {log, true},
		"a number":       {strings.Replace(log, "want 4", "want 17", 1), true},
		"a time":         {strings.NewReplacer("0.01s", "2s", "1m2.5s", "59.125s").Replace(log), true},
		"an address":     {strings.Replace(log, "0xc00012", "0xbeef", 1), true},
		"a folder":       {strings.Replace(log, "/tmp/build-a1/x", "/tmp/build-zz/y", 1), true},
		"another test":   {strings.Replace(log, "FAIL: TestSum", "FAIL: TestProduct", 1), false},
		"another line":   {log + "panic: no\n", false},
		"another folder": {strings.Replace(log, "/tmp/build-a1/x", "/home/x", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.same, failure(log) == failure(c.log))
		})
	}
	require.Empty(t, failure(" \n"), "no output says nothing")
	long := strings.Repeat(log, 1000)
	require.Equal(t, failure(long[len(long)-most:]), failure(long[len(long)-most-7:]))
	many := strings.Repeat("y\n", most/2)
	require.Equal(t, failure("x1 x2 "+many), failure("x3 "+many))
}
