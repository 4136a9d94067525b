package plans_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A written is a piece of SQL in the source.
type written struct {
	at    string   // file and line
	file  string   // from the top of the module
	sql   string   // as it is written
	parts []string // what stands between the verbs of a format
}

var (
	isSQL = regexp.MustCompile(`(?i)^\s*(select|insert into|update|delete from|with)\s`)
	verb  = regexp.MustCompile(`%(\[\d\])?[sdv]`)
)

// writtenIn finds the SQL in the files of folders, but in their tests.
func writtenIn(t *testing.T, folders ...string) (list []written) {
	t.Helper()
	const top = "../.."
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(top, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := filepath.Rel(top, path)
			list = append(list, writtenInFile(t, path, filepath.ToSlash(file))...)
			return err
		})
		require.NoError(t, err)
	}
	return list
}

func writtenInFile(t *testing.T, path, name string) (list []written) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		if isSQL.MatchString(text) {
			at := files.Position(literal.Pos())
			list = append(list, written{name + ":" + strconv.Itoa(at.Line), name, text, parts(text)})
		}
		return true
	})
	return list
}

func parts(text string) (list []string) {
	for _, part := range verb.Split(text, -1) {
		if part = folded(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func (w written) text() string { return strings.Join(w.parts, " ") }

// in reports whether a statement has all parts, in their order.
func (w written) in(sql string) bool {
	for _, part := range w.parts {
		_, after, ok := strings.Cut(sql, part)
		if !ok {
			return false
		}
		sql = after
	}
	return true
}
