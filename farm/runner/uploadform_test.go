package runner

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/executor"
)

const pieceBytes = 8 << 20

// All that is missing is sent in one request, however much that is.
func TestMissingPieces(t *testing.T) {
	t.Parallel()
	m := executor.Manifest{Files: []executor.ManifestFile{{ID: "f1", Size: 1 << 40, ChunkBytes: pieceBytes},
		{ID: "f2", Size: 1, ChunkBytes: pieceBytes}}}
	var a uploadAnswer
	a.Files = append(a.Files, struct {
		ID      string  `json:"id"`
		State   string  `json:"state"`
		Missing []int64 `json:"missing"`
	}{ID: "f1"})
	for n := range int64(1000) {
		a.Files[0].Missing = append(a.Files[0].Missing, n)
	}
	require.Len(t, missingPieces(m, a), 1000)
	a.Files[0].Missing = []int64{-1, 1 << 50}
	require.Empty(t, missingPieces(m, a))
}

func TestUploadForm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := bytes.Repeat([]byte("0123456789"), 1_000_000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f1"), text, 0o600))
	file := executor.ManifestFile{ID: "f1", Size: int64(len(text)), ChunkBytes: pieceBytes}
	m := executor.Manifest{Epoch: 1, Files: []executor.ManifestFile{file}}
	f, err := newUploadForm(dir, m, []piece{{file, 1}, {file, 0}})
	require.NoError(t, err)
	body, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Len(t, body, int(f.size))
	_, parameters, err := mime.ParseMediaType(f.contentType)
	require.NoError(t, err)
	r := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for _, want := range []struct {
		name string
		text []byte
	}{{"manifest", nil}, {"f1.1", text[pieceBytes:]}, {"f1.0", text[:pieceBytes]}} {
		part, err := r.NextPart()
		require.NoError(t, err)
		require.Equal(t, want.name, part.FormName())
		got, err := io.ReadAll(part)
		require.NoError(t, err)
		require.True(t, want.text == nil || bytes.Equal(want.text, got))
	}

	file.Size++ // the file is shorter than its manifest says
	f, err = newUploadForm(dir, m, []piece{{file, 1}})
	require.NoError(t, err)
	_, err = io.ReadAll(f)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, f.Close())

	f, err = newUploadForm(dir, m, []piece{{file, 0}})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = io.ReadAll(f)
	require.ErrorIs(t, err, os.ErrClosed, "what is closed opens nothing")
}
