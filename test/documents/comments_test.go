package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testName  = regexp.MustCompile(`^(Test|Benchmark|Fuzz)`)
	firstName = regexp.MustCompile(`^(?:(?:A|An|The) )?(\w+)`)
)

// TestDocCommentsInTestsStartWithTheName checks the doc comments of test files, which linters of doc
// comments leave out. Tests, benchmarks and fuzz targets may be described by any sentence.
func TestDocCommentsInTestsStartWithTheName(t *testing.T) {
	t.Parallel()
	checked, position := 0, token.NewFileSet()
	check := func(doc *ast.CommentGroup, names ...string) {
		if doc.Text() == "" {
			return
		}
		checked++
		first := firstName.FindStringSubmatch(doc.Text())
		if first == nil || !slices.Contains(names, first[1]) {
			t.Errorf("%s: the comment of %s does not start with its name", position.Position(doc.Pos()), names[0])
		}
	}
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(position, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if !testName.MatchString(d.Name.Name) {
					check(d.Doc, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					doc, names := docOf(spec)
					if !d.Lparen.IsValid() {
						doc = d.Doc
					}
					if len(names) > 0 {
						check(doc, names...)
					}
				}
			}
		}
		return nil
	}))
	require.Greater(t, checked, 500)
}

// docOf returns the doc comment of a declaration in parentheses, and the names that it declares.
func docOf(spec ast.Spec) (doc *ast.CommentGroup, names []string) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Doc, []string{spec.Name.Name}
	case *ast.ValueSpec:
		for _, n := range spec.Names {
			names = append(names, n.Name)
		}
		return spec.Doc, names
	}
	return nil, nil
}
