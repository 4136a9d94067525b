package migrations

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// A step is a version with its file and its row in the history. One of the two may be nil.
type step struct {
	version     int
	description string
	file        *file
	row         *row
}

// A plan lists every version of either side, in order.
type plan struct {
	steps      []step
	newestFile int
	newestRow  int
	current    int // newest version that succeeded; 0 for none
}

func compare(files []file, rows []row) plan {
	var p plan
	byVersion := map[int]step{}
	for i, f := range files {
		byVersion[f.version] = step{version: f.version, description: f.description, file: &files[i]}
		p.newestFile = max(p.newestFile, f.version)
	}
	for i, r := range rows {
		s := byVersion[r.Version]
		s.version, s.description, s.row = r.Version, r.Description, &rows[i]
		byVersion[r.Version] = s
		p.newestRow = max(p.newestRow, r.Version)
		if r.Success {
			p.current = max(p.current, r.Version)
		}
	}
	p.steps = slices.SortedFunc(maps.Values(byVersion), func(a, b step) int { return cmp.Compare(a.version, b.version) })
	return p
}

// The states of a step, by Flyway's names.
const (
	success = "Success"
	pending = "Pending"
	failed  = "Failed"
	future  = "Future"  // applied, and newer than every file
	missing = "Missing" // applied, older than the newest file, and without a file
	ignored = "Ignored" // never applied although a newer one was
)

func (p plan) state(s step) string {
	switch {
	case s.row == nil && s.version < p.newestRow:
		return ignored
	case s.row == nil:
		return pending
	case !s.row.Success:
		return failed
	case s.file != nil:
		return success
	case s.version > p.newestFile:
		return future
	default:
		return missing
	}
}

func (p plan) pending() []file {
	var files []file
	for _, s := range p.steps {
		if p.state(s) == pending {
			files = append(files, *s.file)
		}
	}
	return files
}

// currentVersion returns the current version as reports show it.
func (p plan) currentVersion() string {
	if p.current == 0 {
		return "<< Empty Schema >>"
	}
	return fmt.Sprint(p.current)
}
