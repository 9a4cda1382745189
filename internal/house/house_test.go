package house

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/funcgp/funcgp/"

// level orders the packages: data flow upwards, imports go downwards.
var level = map[string]int{"store": 0, "linearize": 1, "linearize/network": 2, "ntk": 2, "gp": 3, "gp/cg": 5, "sparse": 5, "glm": 5, "glm/weightspace": 6, "explain": 7, "explain/report": 8, "cmd": 9}

// besides lists imports between packages of one level that are wanted.
var besides = map[string]bool{}

type source struct {
	path, pkg string // relative to the module; first element of the path
	text      []byte
	file      *ast.File
	set       *token.FileSet
}

// eachSource parses every Go file of the module.
func eachSource(t *testing.T, do func(s source)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		do(source{filepath.ToSlash(rel), strings.Split(filepath.ToSlash(rel), "/")[0], text, file, set})
		return err
	})
	require.NoError(t, err)
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// TestImportDirection checks that imports run against the flow of data and
// that the internal packages know nothing of the public ones.
func TestImportDirection(t *testing.T) {
	eachSource(t, func(s source) {
		if s.isTest() || strings.HasPrefix(s.path, "internal/kerneltest/") || strings.HasPrefix(s.path, "internal/testref/") {
			return
		}
		for _, im := range s.file.Imports {
			path, err := strconv.Unquote(im.Path.Value)
			require.NoError(t, err)
			to, ours := strings.CutPrefix(path, module)
			to = strings.Split(to, "/")[0]
			if !ours || to == "internal" || to == s.pkg || besides[s.pkg+" "+to] {
				continue
			}
			require.NotEqual(t, "internal", s.pkg, "%s imports %s", s.path, path)
			require.Less(t, level[to], level[s.pkg], "%s imports %s", s.path, path)
		}
	})
}

// TestFormatted checks that gofmt would change nothing.
func TestFormatted(t *testing.T) {
	eachSource(t, func(s source) {
		want, err := format.Source(s.text)
		require.NoError(t, err, s.path)
		require.True(t, bytes.Equal(want, s.text), "gofmt would change %s", s.path)
	})
}

// TestPanicsNameTheirPackage checks that a panic with a constant message
// starts with the package's name.
func TestPanicsNameTheirPackage(t *testing.T) {
	eachSource(t, func(s source) {
		if s.isTest() {
			return
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			name, isName := call.Fun.(*ast.Ident)
			lit, isLit := call.Args[0].(*ast.BasicLit)
			if isName && name.Name == "panic" && isLit && lit.Kind == token.STRING {
				require.True(t, strings.HasPrefix(lit.Value[1:], s.file.Name.Name+": "), "%v: %s", s.set.Position(lit.Pos()), lit.Value)
			}
			return true
		})
	})
}

// TestLibraryIsQuiet checks that nothing but the command prints or logs.
func TestLibraryIsQuiet(t *testing.T) {
	eachSource(t, func(s source) {
		if s.isTest() || s.pkg == "cmd" {
			return
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			bad := x.Name == "log" || x.Name == "slog" || x.Name == "os" && (sel.Sel.Name == "Stdout" || sel.Sel.Name == "Stderr") ||
				x.Name == "fmt" && (sel.Sel.Name == "Print" || sel.Sel.Name == "Println" || sel.Sel.Name == "Printf")
			require.False(t, bad && x.Obj == nil, "%v: %s.%s", s.set.Position(sel.Pos()), x.Name, sel.Sel.Name)
			return true
		})
	})
}
