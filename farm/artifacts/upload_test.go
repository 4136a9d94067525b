package artifacts_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/artifacts"
	"svc/fault"
)

var job = artifacts.Job{Workspace: events.ID{1}, ID: events.ID{2}, Epoch: 3}

const chunk = artifacts.MinChunkBytes

// content returns bytes that depend on the seed.
func content(seed uint64, size int) []byte {
	b := make([]byte, size)
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = random.Read(b)
	return b
}

func fileOf(id string, text []byte) artifacts.File {
	sum := sha256.Sum256(text)
	return artifacts.File{ID: id, Name: "dist", Path: "dist/" + id, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]),
		ChunkBytes: chunk, Mode: 0o644}
}

func manifest(texts ...[]byte) artifacts.Manifest {
	m := artifacts.Manifest{Epoch: job.Epoch}
	for i, text := range texts {
		m.Files = append(m.Files, fileOf(fmt.Sprint("f", i), text))
	}
	return m
}

func resume(t *testing.T, s artifacts.Store, m artifacts.Manifest) *artifacts.Upload {
	t.Helper()
	u, err := artifacts.Resume(t.Context(), s, job, m)
	require.NoError(t, err)
	return u
}

func artifactsOf(u *artifacts.Upload) (list []artifacts.Artifact) {
	for _, s := range u.States() {
		list = append(list, s.Artifact)
	}
	return list
}

// part returns chunk n of a text.
func part(text []byte, n int) []byte { return text[n*chunk : min((n+1)*chunk, len(text))] }

func send(ctx context.Context, u *artifacts.Upload, file int, text []byte, n int) error {
	return cmp.Or(u.Receive(ctx, fmt.Sprintf("f%d.%d", file, n), bytes.NewReader(part(text, n))), u.Finish(ctx))
}

// stored returns a file as a reader sees it.
func stored(t *testing.T, s artifacts.Store, id events.ID) []byte {
	t.Helper()
	r, err := artifacts.Open(t.Context(), s, job.Workspace, job.ID, id)
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return text
}

// requireWhole checks that all sealed files are as declared.
func requireWhole(t *testing.T, s artifacts.Store, u *artifacts.Upload) {
	t.Helper()
	for _, a := range u.Sealed() {
		sum := sha256.Sum256(stored(t, s, a.ID))
		require.Equal(t, a.SHA256, hex.EncodeToString(sum[:]))
	}
}

func TestUpload(t *testing.T) {
	a, b := content(1, 2*chunk+17), content(2, 100)
	m := manifest(a, b, nil)
	for name, order := range map[string][][2]int{
		"in order": {{0, 0}, {0, 1}, {0, 2}, {1, 0}},
		"mixed":    {{1, 0}, {0, 2}, {0, 0}, {0, 1}},
		"backward": {{0, 2}, {0, 1}, {0, 0}, {1, 0}},
		"twice":    {{0, 0}, {0, 0}, {0, 2}, {0, 2}, {0, 1}, {0, 1}, {1, 0}, {1, 0}},
	} {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", resumed), func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir)
				u := resume(t, s, m)
				for _, o := range order {
					if resumed { // each chunk at a different replica
						s = open(t, dir)
						u = resume(t, s, m)
					}
					require.NoError(t, u.SealComplete(t.Context()))
					require.NoError(t, send(t.Context(), u, o[0], [][]byte{a, b}[o[0]], o[1]))
				}
				require.NoError(t, u.SealComplete(t.Context()))
				require.Len(t, u.Sealed(), 3)
				require.EqualValues(t, len(a)+len(b), u.Received())
				for i, text := range [][]byte{a, b, {}} {
					require.Empty(t, u.States()[i].Missing)
					require.Equal(t, text, stored(t, s, artifactsOf(u)[i].ID))
				}
				again := resume(t, open(t, dir), m)
				require.Equal(t, artifactsOf(u), again.Sealed())
			})
		}
	}
}

func TestMissingChunks(t *testing.T) {
	a := content(1, 3*chunk)
	s := open(t, t.TempDir())
	u := resume(t, s, manifest(a))
	require.Equal(t, []int64{0, 1, 2}, u.States()[0].Missing)
	require.NoError(t, send(t.Context(), u, 0, a, 1))
	for _, u := range []*artifacts.Upload{u, resume(t, s, manifest(a))} {
		require.Equal(t, []int64{0, 2}, u.States()[0].Missing)
		require.EqualValues(t, chunk, u.Received())
		require.Empty(t, u.Sealed())
	}
}

// Parts that do not match the manifest are refused, and not stored.
func TestMismatchedPartsAreRefused(t *testing.T) {
	a := content(1, chunk+10)
	for name, c := range map[string]struct {
		part string
		body io.Reader
		want *fault.Fault
	}{
		"too long":      {"f0.1", bytes.NewReader(content(1, 11)), fault.ErrValidation},
		"much too long": {"f0.1", bytes.NewReader(content(1, 1<<20)), fault.ErrValidation},
		"too short":     {"f0.1", bytes.NewReader(content(1, 9)), fault.ErrValidation},
		"empty":         {"f0.1", strings.NewReader(""), fault.ErrValidation},
		"truncated": {"f0.1", io.MultiReader(bytes.NewReader(content(1, 9)), iotest.ErrReader(io.ErrUnexpectedEOF)),
			artifacts.ErrIncomplete},
		"truncated at the start": {"f0.0", iotest.ErrReader(io.ErrUnexpectedEOF), artifacts.ErrIncomplete},
		"read error after the chunk": {"f0.1", io.MultiReader(bytes.NewReader(content(1, 10)), iotest.ErrReader(io.ErrUnexpectedEOF)),
			artifacts.ErrIncomplete},
		"unknown file":              {"f1.0", strings.NewReader("a"), fault.ErrValidation},
		"unknown chunk":             {"f0.2", strings.NewReader("a"), fault.ErrValidation},
		"negative number":           {"f0.-1", strings.NewReader("a"), fault.ErrValidation},
		"number with plus sign":     {"f0.+1", strings.NewReader("a"), fault.ErrValidation},
		"number with leading zero":  {"f0.01", strings.NewReader("a"), fault.ErrValidation},
		"huge number":               {"f0.99999999999999999999", strings.NewReader("a"), fault.ErrValidation},
		"no number":                 {"f0.", strings.NewReader("a"), fault.ErrValidation},
		"no name":                   {"", strings.NewReader("a"), fault.ErrValidation},
		"file without chunk number": {"f0", strings.NewReader("a"), fault.ErrValidation},
		"a path":                    {"../f0.0", strings.NewReader("a"), fault.ErrValidation},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			u := resume(t, open(t, dir), manifest(a))
			require.ErrorIs(t, u.Receive(t.Context(), c.part, c.body), c.want)
			require.Empty(t, files(t, dir))
			require.Equal(t, []int64{0, 1}, u.States()[0].Missing)
		})
	}
}

func TestWrongDigestFailsAttempt(t *testing.T) {
	a := content(1, chunk+10)
	wrong := slices.Clone(a)
	wrong[chunk/2]++
	dir := t.TempDir()
	s := open(t, dir)
	m := manifest(a)
	for range 2 {
		u := resume(t, s, m)
		require.NoError(t, send(t.Context(), u, 0, wrong, 0))
		err := send(t.Context(), u, 0, a, 1)
		require.ErrorIs(t, err, artifacts.ErrDigest)
		require.Equal(t, "f0", fault.As(err).Details["fileId"])
		require.Equal(t, []int64{0, 1}, u.States()[0].Missing)
		require.Empty(t, u.Sealed())
	}
	u := resume(t, s, m)
	require.Equal(t, []int64{0, 1}, u.States()[0].Missing, "of an attempt that was in vain nothing counts")
	require.NoError(t, send(t.Context(), u, 0, a, 0))
	require.NoError(t, send(t.Context(), u, 0, a, 1))
	require.Equal(t, a, stored(t, s, u.Sealed()[0].ID))
}

// Sending the wrong file again and again does not fill the disk.
func TestAttemptsAreLimited(t *testing.T) {
	a, wrong := content(1, 100), content(2, 100)
	dir := t.TempDir()
	s := open(t, dir)
	for range 10 {
		require.ErrorIs(t, send(t.Context(), resume(t, s, manifest(a)), 0, wrong, 0), artifacts.ErrDigest)
	}
	require.Len(t, files(t, dir), 6, "three chunks, and that they were in vain")
	u := resume(t, s, manifest(a))
	require.ErrorIs(t, send(t.Context(), u, 0, a, 0), artifacts.ErrDigest)
	require.NoError(t, u.SealComplete(t.Context()))
	require.Empty(t, u.Sealed())
}

// One upload with a wrong chunk fails an attempt while another seals the right ones, some of which
// both have: the file stays complete.
func TestFailedAttemptBesideSeal(t *testing.T) {
	a := content(1, 2*chunk)
	wrong := slices.Clone(a)
	wrong[0]++
	s := open(t, t.TempDir())
	m := manifest(a)
	require.NoError(t, send(t.Context(), resume(t, s, m), 0, a, 1))
	good, bad := resume(t, s, m), resume(t, s, m)
	require.ErrorIs(t, send(t.Context(), bad, 0, wrong, 0), artifacts.ErrDigest)
	require.NoError(t, send(t.Context(), good, 0, a, 0))
	require.Equal(t, a, stored(t, s, good.Sealed()[0].ID))
	require.Len(t, resume(t, s, m).Sealed(), 1, "a file that is sealed is, whatever failed beside it")
}

// Two replicas receive the same job at the same time.
func TestConcurrentUploads(t *testing.T) {
	a, b := content(1, 3*chunk+5), content(2, 2*chunk)
	m := manifest(a, b)
	for round := range 4 {
		dir := t.TempDir()
		var group sync.WaitGroup
		failed := make(chan error, 100)
		for replica := range 3 {
			s := open(t, dir)
			order := rand.New(rand.NewPCG(uint64(round), uint64(replica))).Perm(6)
			group.Go(func() {
				u, err := artifacts.Resume(context.Background(), s, job, m)
				for _, i := range order {
					if err == nil {
						err = send(context.Background(), u, i/4, [][]byte{a, b}[i/4], i%4)
					}
				}
				failed <- err
			})
		}
		group.Wait()
		close(failed)
		for err := range failed {
			require.NoError(t, err)
		}
		s := open(t, dir)
		u := resume(t, s, m)
		require.Len(t, u.Sealed(), 2)
		require.Equal(t, a, stored(t, s, artifactsOf(u)[0].ID))
		require.Equal(t, b, stored(t, s, artifactsOf(u)[1].ID))
	}
}

// Whatever step a replica is killed at, another one continues, and no incomplete file is sealed.
func TestUploadSurvivesKillAtAnyStep(t *testing.T) {
	a := content(1, chunk+10)
	m := manifest(a, []byte("small"))
	done := false
	for at := 1; !done; at += 3 {
		dir := t.TempDir()
		s := open(t, dir)
		u, err := artifacts.Resume(t.Context(), s.Trapped(&artifacts.Trap{At: at}), job, m)
		for _, o := range [][2]int{{0, 1}, {0, 0}, {1, 0}} {
			if err == nil {
				err = send(t.Context(), u, o[0], [][]byte{a, []byte("small")}[o[0]], o[1])
			}
		}
		done = err == nil
		if !done {
			require.ErrorIs(t, err, artifacts.ErrStore)
		}
		next := resume(t, s, m)
		requireWhole(t, s, next)
		require.NoError(t, next.SealComplete(t.Context()))
		for i, text := range [][]byte{a, []byte("small")} {
			for _, n := range next.States()[i].Missing {
				require.NoError(t, send(t.Context(), next, i, text, int(n)))
			}
		}
		require.Len(t, next.Sealed(), 2, "killed at step %d", at)
		requireWhole(t, s, next)
	}
}

func TestFullDisk(t *testing.T) {
	a := content(1, 100)
	s := open(t, t.TempDir())
	for at := 1; ; at++ {
		u, err := artifacts.Resume(t.Context(), s.Trapped(&artifacts.Trap{At: at, Once: syscall.ENOSPC}), job, manifest(a))
		if err == nil {
			err = send(t.Context(), u, 0, a, 0)
		}
		if err == nil {
			break
		}
		require.ErrorIs(t, err, artifacts.ErrStore)
		require.ErrorIs(t, err, syscall.ENOSPC, "for the log")
		require.NotContains(t, fault.As(err).Message, "space")
		requireWhole(t, s, resume(t, s, manifest(a)))
	}
}
