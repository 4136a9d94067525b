package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
)

// inner are the folders whose files are ordered, with the largest percentage of arrows that run back up.
var inner = []struct {
	folder  string
	percent int
}{{"http/rest", 10}, {"http/rest/door", 10}, {"farm/dispatch", 25}, {"commands", 15}, {"commands/work", 15}}

// measureArrows draws an arrow from each file to those files of its folder whose definitions it names, puts the files
// in an order that leaves few arrows from a later to an earlier one, and counts these.
func measureArrows(ctx context.Context) (list []figure, err error) {
	folders, err := productFolders(ctx)
	if err != nil {
		return nil, err
	}
	for _, limit := range inner {
		i := slices.IndexFunc(folders, func(f *folder) bool { return f.name == limit.folder })
		if i < 0 {
			continue
		}
		to, err := arrows(folders[i].files)
		if err != nil {
			return nil, err
		}
		all, back := count(to)
		list = append(list, figure{
			fmt.Sprintf("arrows in %s that run back up, percent (%d of %d)", limit.folder, back, all),
			100 * back / max(all, 1), fmt.Sprintf("< %d", limit.percent),
		})
	}
	return list, nil
}

// arrows returns the files that each file names.
func arrows(files []string) (map[string][]string, error) {
	set := token.NewFileSet()
	parsed := map[string]*ast.File{}
	definedIn := map[string][]string{} // by name; methods have the name after a dot
	for _, name := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed[name] = f
		for _, d := range definitions(f) {
			definedIn[d] = append(definedIn[d], name)
		}
	}
	to := map[string][]string{}
	for name, f := range parsed {
		named := map[string]bool{}
		record := func(d string) {
			if in := definedIn[d]; len(in) == 1 && in[0] != name {
				named[in[0]] = true
			}
		}
		imported := map[string]bool{}
		for _, i := range f.Imports {
			imported[path.Base(i.Path.Value[1:len(i.Path.Value)-1])] = true
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, is := n.X.(*ast.Ident); is && imported[x.Name] {
					return false
				}
				record("." + n.Sel.Name)
				ast.Inspect(n.X, func(m ast.Node) bool {
					if x, is := m.(*ast.Ident); is {
						record(x.Name)
					}
					return true
				})
			case *ast.Ident:
				record(n.Name)
			}
			return true
		})
		to[name] = slices.Sorted(maps.Keys(named))
	}
	return to, nil
}

// definitions returns the names that a file defines for its package.
func definitions(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			} else {
				names = append(names, "."+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// count returns the number of arrows, and of those that run back in an order found by taking away, again and
// again, files that name none of the others, files that no other names, or the one with the most of the latter over the former
// (Eades, Lin and Smyth, "A fast and effective heuristic for the feedback arc set problem").
func count(to map[string][]string) (all, back int) {
	from := map[string][]string{}
	for a, list := range to {
		all += len(list)
		for _, b := range list {
			from[b] = append(from[b], a)
		}
	}
	left := slices.Sorted(maps.Keys(to))
	degree := func(list []string) (n int) {
		for _, other := range list {
			if slices.Contains(left, other) {
				n++
			}
		}
		return n
	}
	var top, bottom []string
	for len(left) > 0 {
		best, most := 0, -len(to)
		for i, f := range left {
			out, in := degree(to[f]), degree(from[f])
			switch {
			case out == 0:
				best, most = i, -len(to)-1
			case in == 0:
				best, most = i, len(to)+1
			case out-in > most:
				best, most = i, out-in
			default:
				continue
			}
			if out == 0 || in == 0 {
				break
			}
		}
		f := left[best]
		if degree(to[f]) == 0 {
			bottom = append(bottom, f)
		} else {
			top = append(top, f)
		}
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(bottom)
	order := append(top, bottom...)
	for a, list := range to {
		for _, b := range list {
			if slices.Index(order, b) < slices.Index(order, a) {
				back++
			}
		}
	}
	return all, back
}
