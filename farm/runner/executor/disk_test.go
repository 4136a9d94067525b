package executor

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

func TestDiskUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	usage := func(limit int64) int64 {
		t.Helper()
		used, tooDeep := diskUsage(t.Context(), limit, dir, filepath.Join(dir, "none"))
		require.False(t, tooDeep)
		return used
	}
	empty := usage(math.MaxInt64)
	write := func(name string, n int) {
		t.Helper()
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte{1}, n), 0o600))
	}
	write("a", 3<<20)
	write("sub/deep/b", 2<<20)
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(1<<40))
	require.NoError(t, sparse.Close())
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "again")))
	require.NoError(t, os.Symlink("/usr", filepath.Join(dir, "elsewhere")))
	used := usage(math.MaxInt64) - empty
	require.GreaterOrEqual(t, used, int64(5<<20))
	require.Less(t, used, int64(6<<20))
	require.Less(t, usage(1<<20), int64(5<<20), "no more is measured once it exceeds the limit")
	require.Greater(t, usage(1<<20), int64(1<<20))
}

func TestDeepFoldersAreNoArtifacts(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	deep := filepath.Join(work, strings.Repeat("d/", maxDepth+1))
	require.NoError(t, os.MkdirAll(deep, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(deep, "file"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(work, "file"), nil, 0o600))
	want := []wire.Artifact{{Name: "all", Paths: []string{"**"}}}
	m, _, leftOut, err := gather(t.Context(), work, work, filepath.Join(t.TempDir(), "files"), want, 1<<20)
	require.NoError(t, err)
	require.Len(t, m.Files, 1)
	require.Equal(t, 1, leftOut.count)
	require.Equal(t, wire.LeftOutDeep, leftOut.files[0].Reason)
}
