package artifacts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"svc/farm/artifacts"
)

// An observedStore records which objects are opened, and lets commits wait for permission.
type observedStore struct {
	artifacts.Store
	mu     sync.Mutex
	opened []string
	permit chan error // what a commit fails with, or nil
}

func (s *observedStore) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, key)
	return s.Store.Open(ctx, key, offset)
}

func (s *observedStore) Stage(ctx context.Context, key string, size int64, r io.Reader) (artifacts.Staged, error) {
	staged, err := s.Store.Stage(ctx, key, size, r)
	if err != nil || s.permit == nil {
		return staged, err
	}
	return permitted{staged, s.permit}, nil
}

type permitted struct {
	artifacts.Staged
	permit chan error
}

func (p permitted) Commit() error {
	if err := <-p.permit; err != nil {
		return err
	}
	return p.Staged.Commit()
}

func receive(t *testing.T, u *artifacts.Upload, text []byte, n int) error {
	t.Helper()
	return u.Receive(t.Context(), fmt.Sprint("f0.", n), bytes.NewReader(part(text, n)))
}

// The next chunk is read while earlier ones are synced. Until then they are not there.
func TestChunksAreCommittedInTheBackground(t *testing.T) {
	a := content(1, 3*chunk)
	s := &observedStore{Store: open(t, t.TempDir()), permit: make(chan error)}
	u := resume(t, s, manifest(a))
	require.NoError(t, receive(t, u, a, 0))
	require.NoError(t, receive(t, u, a, 1))
	folder := job.Workspace.String() + "/" + job.ID.String()
	require.Empty(t, names(t, s, folder))
	third := make(chan error)
	go func() { third <- receive(t, u, a, 2) }()
	for range 3 {
		select {
		case err := <-third:
			require.Fail(t, "the file is complete before its chunks are durable", "%v", err)
		case s.permit <- nil:
		}
	}
	require.NoError(t, <-third)
	require.Empty(t, s.opened, "no chunk was read again")
	require.Equal(t, a, stored(t, s, u.Sealed()[0].ID))
	require.Len(t, names(t, s, folder), 4)
}

// A chunk that could not be synced does not count, and fails the request.
func TestFailedCommit(t *testing.T) {
	a := content(1, 3*chunk)
	broken := errors.New("broken")
	for _, last := range []int{1, 2} {
		dir := t.TempDir()
		s := &observedStore{Store: open(t, dir), permit: make(chan error, 3)}
		s.permit <- broken
		s.permit <- nil
		s.permit <- nil
		u := resume(t, s, manifest(a))
		var err error
		for n := 0; n <= last && err == nil; n++ {
			err = receive(t, u, a, n)
		}
		if err == nil {
			err = u.Finish(t.Context())
		}
		require.ErrorIs(t, err, artifacts.ErrStore)
		require.ErrorIs(t, err, broken)
		require.NoError(t, u.Finish(t.Context()))
		require.Zero(t, u.Received())
		require.Empty(t, u.Sealed())
		next := resume(t, open(t, dir), manifest(a))
		for _, n := range next.States()[0].Missing {
			require.NoError(t, send(t.Context(), next, 0, a, int(n)))
		}
		require.Equal(t, a, stored(t, s, next.Sealed()[0].ID))
	}
}

// A chunk that cannot be read to its end leaves no trace in the digest that the next request continues.
func TestDigestAfterFailedRead(t *testing.T) {
	a, dir := content(1, 3*chunk), t.TempDir()
	s := &breakingStore{Store: open(t, dir)}
	u := resume(t, s, manifest(a))
	require.NoError(t, receive(t, u, a, 0))
	require.NoError(t, receive(t, u, a, 2)) // stored, and read again once it can be hashed
	s.broken = true
	require.ErrorIs(t, receive(t, u, a, 1), errBroken)
	require.NoError(t, u.Finish(t.Context()))
	next := resume(t, open(t, dir), manifest(a))
	require.NoError(t, next.SealComplete(t.Context()))
	require.Equal(t, a, stored(t, s.Store, next.Sealed()[0].ID))
}

var errBroken = errors.New("broken")

// A breakingStore has objects that, once it is broken, can be read only in part.
type breakingStore struct {
	artifacts.Store
	broken bool
}

func (s *breakingStore) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, key, offset)
	if err != nil || !s.broken {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, 100), iotest.ErrReader(errBroken)), r}, nil
}

// Whatever step the process is killed at, a staged object exists completely or not at all.
func TestStageSurvivesKillAtAnyStep(t *testing.T) {
	text := strings.Repeat("0123456789", 100_000)
	for at := 1; ; at++ {
		dir := t.TempDir()
		d := open(t, dir)
		trapped := d.Trapped(&artifacts.Trap{At: at})
		staged, err := trapped.Stage(t.Context(), "w/j/a.0.0.t", int64(len(text)), strings.NewReader(text))
		if err == nil {
			require.Empty(t, names(t, d, "w/j"))
			err = staged.Commit()
		}
		if err == nil {
			err = trapped.Sync(t.Context(), "w/j")
		}
		if err == nil {
			require.Greater(t, at, 12, "it has steps")
			require.Equal(t, text, get(t, d, "w/j/a.0.0.t", 0))
			require.Len(t, files(t, dir), 1)
			break
		}
		require.ErrorIs(t, err, artifacts.ErrKilled)
		if len(names(t, d, "w/j")) > 0 {
			require.Equal(t, text, get(t, d, "w/j/a.0.0.t", 0), "killed at step %d", at)
		}
	}
}
