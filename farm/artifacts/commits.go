package artifacts

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// maxCommits is how many chunks may wait for their sync while the next one is read.
const maxCommits = 2

// commits are the chunks that are being committed in the background, and those committed since the
// last [Upload.wait].
type commits struct {
	group  *errgroup.Group // nil if there are no chunks
	chunks []fileChunk
	failed atomic.Bool // since then
	dirty  bool        // chunks were committed whose names may not be durable
}

// A fileChunk is chunk n of a file.
type fileChunk struct {
	p *progress
	n int64
}

// begin commits a chunk in the background. It waits while there are too many.
func (c *commits) begin(p *progress, n int64, staged Staged) {
	if c.group == nil {
		c.group = &errgroup.Group{}
		c.group.SetLimit(maxCommits)
	}
	c.chunks, c.dirty = append(c.chunks, fileChunk{p, n}), true
	c.group.Go(func() error {
		err := staged.Commit()
		if err != nil {
			c.failed.Store(true)
		}
		return err
	})
}

// wait waits until all chunks are committed. If one could not be, none of them count as stored; the
// next request finds those that are.
func (u *Upload) wait() error {
	if u.commits.group == nil {
		return nil
	}
	err := u.commits.group.Wait()
	if err != nil {
		for _, c := range u.commits.chunks {
			c.p.tokens[c.n] = ""
			c.p.resetDigest()
		}
		err = storeError(err)
	}
	u.commits.group, u.commits.chunks = nil, nil
	u.commits.failed.Store(false)
	return err
}

// Finish waits until all chunks are durable.
func (u *Upload) Finish(ctx context.Context) error {
	if err := u.wait(); err != nil || !u.commits.dirty {
		return err
	}
	return u.sync(ctx)
}

// sync makes the names of chunks durable, also of those that another process committed before it died.
func (u *Upload) sync(ctx context.Context) error {
	if err := u.store.Sync(ctx, u.folder); err != nil {
		return storeError(err)
	}
	u.commits.dirty = false
	return nil
}
