package artifacts_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/artifacts"
	"svc/fault"
)

const most = 256 << 20

// singleFile returns a manifest of one file, with changes.
func singleFile(change func(*artifacts.File)) artifacts.Manifest {
	f := artifacts.File{
		ID: "f1", Name: "dist", Path: "dist/app.tar", Size: 20 << 20, SHA256: strings.Repeat("a", 64), ChunkBytes: 8 << 20, Mode: 0o644,
	}
	change(&f)
	return artifacts.Manifest{Epoch: 1, Files: []artifacts.File{f}}
}

func read(m artifacts.Manifest) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = artifacts.ReadManifest(strings.NewReader(string(text)), most)
	return err
}

func TestInvalidPaths(t *testing.T) {
	for _, p := range []string{
		"", ".", "..", "../a", "a/..", "a/../b", "a/../../b", "./a", "a/./b", "a//b", "/a", "/", "a/", "//a",
		`C:\a`, "C:/a", "c:a", `a\b`, `..\a`, `\\server\share\a`, "//server/share", "a:b", "a|b", "a*b", "a?b", `a"b`, "a<b", "a>b",
		"a\x00b", "a\nb", "a\x1b[31mb", "a\x7fb", "a\u0085b", "a\u2028b", "a\u202egpj.exe", "a\u200eb", "a\u00adb", "a\ufeffb", "a\ufffdb",
		"con", "CON", "con.txt", "a/NUL", "nul.tar.gz", "Aux", "prn.", "COM1", "com9.log", "lpt0", "COM\u00b9", "con .txt", "CONIN$",
		"a.", "a/b./c", "a ", " a", "a/ b", "...", "a/...",
		strings.Repeat("a", 256), strings.Repeat("\u00e9", 128), strings.Repeat("a/", 512) + "a",
	} {
		err := read(singleFile(func(f *artifacts.File) { f.Path = p }))
		require.ErrorIs(t, err, fault.ErrValidation, "%q", p)
		require.Contains(t, fault.As(err).Details, "files[0].path", "%q", p)
	}
}

func TestValidPaths(t *testing.T) {
	for _, p := range []string{
		"a", "dist/app.tar", ".env", "a/.hidden/..b", "..a", "a..b", "Zo\u00eb/r\u00e9sum\u00e9.pdf", "\u65e5\u672c/\u8a9e.txt", "a b/c d",
		"console", "com10", "coma", "nullable.go", "lpt", "~a", "-rf", "a;b&c$(d)", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
		strings.Repeat("a", 255), strings.Repeat("a/", 511) + "ab",
	} {
		require.NoError(t, read(singleFile(func(f *artifacts.File) { f.Path = p })), "%q", p)
	}
}

func TestCollidingPaths(t *testing.T) {
	pair := func(a, b string) artifacts.Manifest {
		m := singleFile(func(f *artifacts.File) { f.Path, f.Size = a, 0 })
		second := m.Files[0]
		second.ID, second.Path = "f2", b
		m.Files = append(m.Files, second)
		return m
	}
	for _, p := range [][2]string{
		{"a", "a"}, {"README", "readme"}, {"dist/A/x", "dist/a/X"}, {"stra\u00dfe", "STRASSE"}, {"\u00e9", "e\u0301"},
		{"\ufb01le", "file"}, {"\u212aelvin", "kelvin"},
		{"a", "a/b"}, {"a/b", "a"}, {"A", "a/b"}, {"a/b/c", "a/B"}, {"a\u200db", "ab"}, {"\u2168", "ix"},
	} {
		err := read(pair(p[0], p[1]))
		require.ErrorIs(t, err, fault.ErrValidation, "%q", p)
		require.Contains(t, fault.As(err).Details, "files[1].path", "%q", p)

		other := pair(p[0], p[1])
		other.Files[1].Name = "logs" // in another artifact it is a different file
		require.NoError(t, read(other), "%q", p)
	}
	for _, p := range [][2]string{{"a", "b"}, {"a/b", "ab"}, {"a/b", "a/c"}, {"a", "ab"}, {"a/b", "a/b2/c"}} {
		require.NoError(t, read(pair(p[0], p[1])), "%q", p)
	}
}

func TestInvalidFiles(t *testing.T) {
	for field, changes := range map[string][]func(*artifacts.File){
		"id": {
			func(f *artifacts.File) { f.ID = "" }, func(f *artifacts.File) { f.ID = "../f1" }, func(f *artifacts.File) { f.ID = "f.1" },
			func(f *artifacts.File) { f.ID = strings.Repeat("f", 33) }, func(f *artifacts.File) { f.ID = "f1\n" },
		},
		"name": {
			func(f *artifacts.File) { f.Name = "" }, func(f *artifacts.File) { f.Name = strings.Repeat("n", 101) },
			func(f *artifacts.File) { f.Name = "a\x00b" }, func(f *artifacts.File) { f.Name = "a\u202eb" },
		},
		"size": {func(f *artifacts.File) { f.Size = -1 }},
		"sha256": {
			func(f *artifacts.File) { f.SHA256 = "" }, func(f *artifacts.File) { f.SHA256 = strings.Repeat("A", 64) },
			func(f *artifacts.File) { f.SHA256 = strings.Repeat("a", 63) },
			func(f *artifacts.File) { f.SHA256 = "sha256:" + strings.Repeat("a", 57) },
		},
		"chunkBytes": {
			func(f *artifacts.File) { f.ChunkBytes = 0 }, func(f *artifacts.File) { f.ChunkBytes = -1 },
			func(f *artifacts.File) { f.ChunkBytes = 1 },
			func(f *artifacts.File) { f.ChunkBytes = artifacts.MinChunkBytes - 1 },
			func(f *artifacts.File) { f.ChunkBytes = artifacts.MaxChunkBytes + 1 },
			func(f *artifacts.File) { f.ChunkBytes = 1 << 62 },
		},
		"mode": {func(f *artifacts.File) { f.Mode = -1 }, func(f *artifacts.File) { f.Mode = 0o4755 },
			func(f *artifacts.File) { f.Mode = 0o120777 }},
	} {
		for i, change := range changes {
			err := read(singleFile(change))
			require.ErrorIs(t, err, fault.ErrValidation, "%s %d", field, i)
			require.Contains(t, fault.As(err).Details, "files[0]."+field, "%s %d", field, i)
		}
	}
	m := singleFile(func(*artifacts.File) {})
	twin := m.Files[0]
	twin.Path = "other"
	m.Files = append(m.Files, twin)
	require.Contains(t, fault.As(read(m)).Details, "files[1].id")

	huge := singleFile(func(f *artifacts.File) {
		f.Size, f.ChunkBytes = 10_001*artifacts.MinChunkBytes, artifacts.MinChunkBytes
	})
	text, err := json.Marshal(huge)
	require.NoError(t, err)
	_, err = artifacts.ReadManifest(strings.NewReader(string(text)), 1<<40)
	require.Contains(t, fault.As(err).Details, "files[0].chunkBytes")
}

func TestTooLargeManifests(t *testing.T) {
	sum := func(sizes ...int64) artifacts.Manifest {
		m := artifacts.Manifest{Epoch: 1}
		for i, size := range sizes {
			f := singleFile(func(f *artifacts.File) { f.ID, f.Path, f.Size = fmt.Sprint("f", i), fmt.Sprint("p", i), size }).Files[0]
			m.Files = append(m.Files, f)
		}
		return m
	}
	require.NoError(t, read(sum(most)))
	require.NoError(t, read(sum(most-1, 1, 0)))
	for name, m := range map[string]artifacts.Manifest{
		"one": sum(most + 1), "two": sum(most, 1), "overflow": sum(1<<62, 1<<62, 1<<62), "the most there is": sum(1<<63-1, 1<<63-1),
		"after a negative one": sum(-1<<62, most+1),
	} {
		err := read(m)
		require.ErrorIs(t, err, artifacts.ErrTooLarge, name)
		require.EqualValues(t, most, fault.As(err).Details["limitBytes"], name)
		require.Greater(t, fault.As(err).Details["declaredBytes"], int64(most), name)
	}
	many := artifacts.Manifest{Epoch: 1}
	for i := range artifacts.MaxFiles + 1 {
		many.Files = append(many.Files, singleFile(func(f *artifacts.File) {
			f.ID, f.Path, f.Size = fmt.Sprint("f", i), fmt.Sprint("p", i), 0
		}).Files[0])
	}
	require.ErrorIs(t, read(many), fault.ErrValidation)
	many.Files = many.Files[1:]
	require.NoError(t, read(many))
}

func TestMalformedManifests(t *testing.T) {
	good := `{"epoch":1,"files":[]}`
	for _, text := range []string{
		"", "null", "[]", "7", `"a"`, "{", good + good, good + "x", `{"epoch":1,"files":[],"more":1}`, `{"epoch":"1","files":[]}`,
		`{"epoch":1.5,"files":[]}`, `{"epoch":0,"files":[]}`, `{"epoch":-1,"files":[]}`, `{"files":[]}`, `{"epoch":1,"files":{}}`,
		`{"epoch":1,"files":[{"id":"f1","link":"/etc/passwd"}]}`, "{\"epoch\":1,\"files\":[{\"id\":\"\xff\"}]}",
		`{"epoch":1,"files":[{"size":1e30}]}`,
		`{"epoch":1,"files":[` + strings.Repeat(" ", artifacts.MaxManifest) + `]}`,
	} {
		_, err := artifacts.ReadManifest(strings.NewReader(text), most)
		require.ErrorIs(t, err, fault.ErrValidation, "%.60q", text)
	}
	m, err := artifacts.ReadManifest(strings.NewReader(good), most)
	require.NoError(t, err)
	require.Equal(t, artifacts.Manifest{Epoch: 1, Files: []artifacts.File{}}, m)
	_, err = artifacts.ReadManifest(iotest.ErrReader(io.ErrUnexpectedEOF), most)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func FuzzReadManifest(f *testing.F) {
	f.Add([]byte(`{"epoch":3,"files":[{"id":"f1","name":"dist","path":"dist/app.tar","size":20971520,"sha256":"aa",` +
		`"chunkBytes":8388608,"mode":420}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := artifacts.ReadManifest(strings.NewReader(string(text)), most)
		if err != nil {
			require.NotNil(t, fault.As(err))
			return
		}
		var sum int64
		for _, file := range m.Files {
			require.NotContains(t, strings.Split(file.Path, "/"), "..")
			require.False(t, strings.HasPrefix(file.Path, "/"))
			sum += file.Size
		}
		require.LessOrEqual(t, sum, int64(most))
	})
}

// Any change of the declaration gives another id.
func TestArtifactIDsDependOnDeclaration(t *testing.T) {
	s := open(t, t.TempDir())
	m := manifest([]byte("a"))
	id := artifactsOf(resume(t, s, m))[0].ID
	require.Equal(t, id, artifactsOf(resume(t, s, m))[0].ID)
	seen := map[events.ID]bool{id: true}
	for _, change := range []func(*artifacts.File){
		func(f *artifacts.File) { f.ID = "f1" }, func(f *artifacts.File) { f.Name = "logs" }, func(f *artifacts.File) { f.Path = "b" },
		func(f *artifacts.File) { f.Size = 2 }, func(f *artifacts.File) { f.SHA256 = strings.Repeat("b", 64) },
		func(f *artifacts.File) { f.ChunkBytes++ }, func(f *artifacts.File) { f.Mode = 0o755 },
	} {
		changed := manifest([]byte("a"))
		change(&changed.Files[0])
		other := artifactsOf(resume(t, s, changed))[0].ID
		require.False(t, seen[other])
		seen[other] = true
	}
	for _, j := range []artifacts.Job{{events.ID{9}, job.ID, 3}, {job.Workspace, events.ID{9}, 3}, {job.Workspace, job.ID, 4}} {
		u, err := artifacts.Resume(t.Context(), s, j, m)
		require.NoError(t, err)
		require.False(t, seen[artifactsOf(u)[0].ID])
	}
}
