package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"svc/farm/wire"
)

// A foundFile is a file in the working directory.
type foundFile struct {
	name  string // its path, maybe through symbolic links
	real  string // its path without them
	wrong string // why it is no part of an upload, "" if it may be
}

const (
	maxLinked = 100_000 // files and folders that are listed behind symbolic links
	maxHops   = 40      // links from one to the next, as in Linux
)

// list lists the files below g.root by name, without .git, and those behind symbolic links as well.
func (g *collector) list(ctx context.Context) ([]foundFile, error) {
	if err := g.walk(ctx, ".", ".", nil); err != nil {
		return nil, fmt.Errorf("walk working directory: %w", err)
	}
	slices.SortFunc(g.found, func(a, b foundFile) int { return strings.Compare(a.name, b.name) })
	return g.found, nil
}

// walk lists what is below folder, which is called name. through are the folders that the links to it are in.
func (g *collector) walk(ctx context.Context, name, folder string, through []string) error {
	return fs.WalkDir(g.root.FS(), folder, func(at string, d fs.DirEntry, err error) error {
		called := at
		if folder != "." {
			called = path.Join(name, strings.TrimPrefix(at, folder))
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && errors.Is(err, fs.ErrPermission):
			return fs.SkipDir // a step has removed the permission
		case err != nil:
			return err
		case d.IsDir() && at == ".git":
			return fs.SkipDir
		case d.IsDir() && strings.Count(called, "/") >= maxDepth:
			g.left.add(called, wire.LeftOutDeep)
			return fs.SkipDir
		}
		if len(through) > 0 {
			if g.linked++; g.linked > maxLinked {
				g.found = append(g.found, foundFile{name: called, wrong: wire.LeftOutLinks})
				return fs.SkipAll
			}
		}
		switch {
		case d.IsDir():
		case d.Type()&fs.ModeSymlink != 0:
			return g.follow(ctx, called, at, through)
		case d.Type().IsRegular():
			g.found = append(g.found, foundFile{name: called, real: at})
		default:
			g.found = append(g.found, foundFile{name: called, wrong: wire.LeftOutSpecial})
		}
		return nil
	})
}

// follow lists what the symbolic link at leads to, which is called name.
func (g *collector) follow(ctx context.Context, name, at string, through []string) error {
	leaveOut := func(why string) error {
		g.found = append(g.found, foundFile{name: name, wrong: why})
		return nil
	}
	if strings.HasPrefix(name+"/", wire.OutFolder+"/") { // secrets are masked in the files there, and in no others
		return leaveOut(wire.LeftOutOutFolder)
	}
	through = append(slices.Clone(through), path.Dir(at))
	for range maxHops {
		to, err := g.root.Readlink(at)
		if err != nil {
			return leaveOut(wire.LeftOutUnreadable)
		}
		if at = path.Join(path.Dir(at), to); path.IsAbs(to) {
			if at, err = filepath.Rel(g.base, to); err != nil {
				return leaveOut(wire.LeftOutOutside)
			}
		}
		if !fs.ValidPath(at) || strings.HasPrefix(at+"/", ".git/") {
			return leaveOut(wire.LeftOutOutside)
		}
		info, err := g.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return leaveOut(wire.LeftOutBroken)
		case err != nil: // a folder on the way is a link that leads out
			return leaveOut(wire.LeftOutOutside)
		case info.Mode()&fs.ModeSymlink != 0:
			continue
		case g.linked >= maxLinked:
			return leaveOut(wire.LeftOutLinks)
		case info.Mode().IsRegular():
			g.found = append(g.found, foundFile{name: name, real: at})
			return nil
		case !info.IsDir():
			return leaveOut(wire.LeftOutSpecial)
		case slices.ContainsFunc(through, func(dir string) bool { return at == "." || dir == at || strings.HasPrefix(dir, at+"/") }):
			return leaveOut(wire.LeftOutLoop)
		}
		return g.walk(ctx, name, at, through)
	}
	return leaveOut(wire.LeftOutBroken)
}
