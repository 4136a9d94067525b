package codehost

import (
	"context"
	"fmt"
	"strconv"

	"svc/dev/codehost/counts"
	"svc/dev/codehost/record"
)

// sync brings the pull requests of a repository up to date with its branches, after somebody has
// changed these: a push to the branch moves the head; a head that is in the base is merged; without
// its branch a pull request is closed. It also makes up for what a crash has left undone.
func (h *host) sync(ctx context.Context, r *record.Repository, by string) error {
	refs, err := r.Bare.Refs(ctx)
	if err != nil {
		return fmt.Errorf("read refs of %s: %w", r.Name, err)
	}
	changed := false
	for _, i := range r.Issues {
		if i.Pull == nil || i.Closed {
			continue
		}
		moved, err := h.syncPull(ctx, r, i, refs, by)
		if err != nil {
			return fmt.Errorf("pull request %s#%d: %w", r.Name, i.Number, err)
		}
		changed = changed || moved
	}
	if !changed {
		return nil
	}
	return r.Save()
}

// syncPull is sync for one pull request. It reports whether that has changed.
func (h *host) syncPull(ctx context.Context, r *record.Repository, i *record.Issue, refs map[string]string, by string) (bool, error) {
	p, now := i.Pull, h.now()
	head, base := refs["refs/heads/"+p.Branch], refs["refs/heads/"+p.Into]
	if base != "" && base != p.Base {
		merged, err := r.Bare.Contains(ctx, base, p.Head)
		if err == nil && !merged && head != "" {
			if merged, err = r.Bare.Contains(ctx, base, head); merged {
				p.Before, p.Head = p.Head, head
			}
		}
		if err != nil {
			return false, err
		}
		if merged {
			i.Close(by, "", now)
			p.MergedAt, p.MergedBy, p.MergeCommit = i.ClosedAt, by, base
			h.merged(r, i)
			return true, nil
		}
	}
	switch {
	case head == "" || base == "":
		i.Close(by, "", now)
		h.counts.Add(r.Name, func(c *counts.Effects) { c.PullsClosed++ })
		h.tell(r, i, "closed", by)
		return true, nil
	case head != p.Head:
		p.Before, p.Head, p.Base, i.UpdatedAt = p.Head, head, base, now
		return true, r.Bare.Point(ctx, pullRef(i.Number), head)
	case base != p.Base:
		p.Base = base
		return true, nil
	}
	return false, nil
}

// pullRef is the ref that keeps the commits of a pull request.
func pullRef(number int) string { return "refs/pull/" + strconv.Itoa(number) + "/head" }

// pushed counts the branches that a push has changed, and syncs.
func (h *host) pushed(ctx context.Context, r *record.Repository, before map[string]string, by string) error {
	after, err := r.Bare.Refs(ctx)
	if err != nil {
		return err
	}
	changed := false
	for name := range union(before, after) {
		if before[name] == after[name] {
			continue
		}
		changed = true
		h.counts.Add(r.Name, func(c *counts.Effects) { c.Push(name, before[name], after[name]) })
		h.hooks.Tell(r.Record, "push", by, object{"ref": name, "before": before[name], "after": after[name]})
	}
	if !changed {
		return nil
	}
	r.PushedAt = h.now()
	if err := h.sync(ctx, r, by); err != nil {
		return err
	}
	return r.Save()
}

func union(a, b map[string]string) map[string]bool {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}

// changed is pushed for branches that the host itself has changed.
func (h *host) changed(ctx context.Context, r *record.Repository, before, after map[string]string, by string) error {
	for name := range union(before, after) {
		h.counts.Add(r.Name, func(c *counts.Effects) { c.Change(before[name], after[name]) })
		h.hooks.Tell(r.Record, "push", by, object{"ref": name, "before": before[name], "after": after[name]})
	}
	r.PushedAt = h.now()
	if err := h.sync(ctx, r, by); err != nil {
		return err
	}
	return r.Save()
}
