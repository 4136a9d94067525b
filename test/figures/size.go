package main

import (
	"bytes"
	"context"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"sort"
	"strings"
)

// The limits of a folder of the product. Events have one file and one stored form for each kind.
const (
	mostFiles = 30
	mostLines = 3000
	unlimited = "events"
)

// A folder is a package of the product.
type folder struct {
	name                           string
	files                          []string
	lines, comments, blank, markup int
}

// productFolders returns the folders of the product by name. Tests, their tools and generated files are none of it.
func productFolders(ctx context.Context) ([]*folder, error) {
	list, err := exec.CommandContext(ctx, "git", "ls-files", "*.go", "*.templ").Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	byName := map[string]*folder{}
	for _, file := range strings.Fields(string(list)) {
		if strings.HasPrefix(file, "test/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(text[:min(len(text), 200)], []byte("DO NOT EDIT")) {
			continue
		}
		name := path.Dir(file)
		if byName[name] == nil {
			byName[name] = &folder{name: name}
		}
		byName[name].add(file, text)
	}
	var folders []*folder
	for _, f := range byName {
		folders = append(folders, f)
	}
	sort.Slice(folders, func(i, j int) bool { return folders[i].name < folders[j].name })
	return folders, nil
}

func (f *folder) add(name string, text []byte) {
	f.files = append(f.files, name)
	lines := bytes.Count(text, []byte("\n"))
	f.lines += lines
	if path.Ext(name) != ".go" { // a template has no comments
		f.markup += lines
		return
	}
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			f.blank++
		}
	}
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile(name, files.Base(), len(text))
	s.Init(file, text, func(token.Position, string) {}, scanner.ScanComments)
	for last := 0; ; {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return
		}
		line := file.Line(pos)
		if kind == token.COMMENT && line != last {
			f.comments += 1 + strings.Count(literal, "\n")
		}
		last = line + strings.Count(literal, "\n")
	}
}

// measureSize counts lines, and names the folders that are too large.
func measureSize(ctx context.Context) ([]figure, error) {
	folders, err := productFolders(ctx)
	if err != nil {
		return nil, err
	}
	var files, lines, comments, blank, markup int
	var large []figure
	for _, f := range folders {
		files, lines = files+len(f.files), lines+f.lines
		comments, blank, markup = comments+f.comments, blank+f.blank, markup+f.markup
		if f.name == unlimited {
			continue
		}
		if len(f.files) > mostFiles {
			large = append(large, figure{"files in " + f.name, len(f.files), fmt.Sprintf("≤ %d", mostFiles)})
		}
		if f.lines > mostLines {
			large = append(large, figure{"lines in " + f.name, f.lines, fmt.Sprintf("≤ %d", mostLines)})
		}
	}
	return append([]figure{
		{"folders", len(folders), ""},
		{"lines", lines, ""},
		{"lines without comments and blank ones", lines - comments - blank, ""},
		{"lines a file", lines / files, "≤ 100"},
		{"comments, percent of Go without blank lines", 100 * comments / (lines - blank - markup), "15–20"},
	}, large...), nil
}
