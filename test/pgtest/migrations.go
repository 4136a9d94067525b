package pgtest

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"svc/migrations"
)

// MigrationsBefore returns the migrations in dir before the one called first.
func MigrationsBefore(t *testing.T, dir, first string) migrations.Set {
	t.Helper()
	files := fstest.MapFS{}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range list {
		if f.Name() < first {
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			require.NoError(t, err)
			files[f.Name()] = &fstest.MapFile{Data: text}
		}
	}
	return migrations.Set{Files: files}
}
