package house

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	pathpkg "path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/funcgp/funcgp/"

// level orders the packages: data flow upwards, imports go downwards. A package
// imports only packages of lower levels.
var level = map[string]int{
	"internal/par": 0, "internal/dense": 1, "internal/memory": 0, "internal/logsum": 0, "internal/minimize": 0, "internal/lattice": 0, "internal/quadrature": 0, "internal/vector": 0,
	"internal/atomicfile": 0, "internal/inputfile": 0, "internal/npy": 0, "internal/picture": 0, "internal/onnx": 0, "internal/saved": 5, "internal/newton": 5, "internal/largest": 3,
	"store": 3, "internal/digits": 0, "internal/dataset": 4, "linearize/rowfile": 5, "linearize/rowfile/parquet": 6,
	"linearize": 4, "linearize/network/internal/graph": 5, "linearize/network/head": 5, "linearize/network/internal/ending": 6, "linearize/network/internal/rewrite": 5, "linearize/network/internal/learnt": 4, "linearize/network/internal/compile": 7, "linearize/network": 8, "linearize/train": 9,
	"internal/jacobian": 5, "ntk": 5, "gp": 6, "internal/sites": 7, "gp/cg": 8, "gp/mode": 8, "gp/kept": 9, "gp/kept/certificate": 9, "sparse": 8, "sparse/shard": 9, "gp/evidence": 8,
	"glm/integral": 6, "glm": 7, "glm/predictive": 8, "glm/score": 9, "glm/novelty": 10, "glm/weightspace": 9, "explain": 10, "explain/result": 11, "explain/report": 17, "explain/audit": 11,
	"explain/counterfactual": 10, "glm/autoencoder": 10,
	"internal/job": 12, "internal/problem": 13, "internal/inference": 14, ".": 16, "sparse/parts": 17, "internal/console": 18,
	"cmd/gpexplain/internal/flags": 19, "explain/serve": 17, "cmd/gpexplain/internal/coder": 20, "cmd/gpexplain": 21, "sparse/beam/pipeline": 21, "sparse/beam/cmd/gpexplain-beam": 22,
	"doc/clients": 0, "doc/examples/own": 13, "doc/examples/probabilities": 13, "doc/examples/saved": 13, "doc/examples/service": 18,
}

// testOnly lists the packages that only tests import. They may import all but
// the commands.
var testOnly = map[string]bool{
	"internal/house": true, "gp/gptest": true, "internal/testkit": true, "internal/testref": true,
}

type source struct {
	path, pkg string // file and folder, relative to the module
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
		rel = filepath.ToSlash(rel)
		do(source{rel, pathpkg.Dir(rel), text, file, set})
		return err
	})
	require.NoError(t, err)
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) isCommand() bool {
	return s.file.Name.Name == "main" || strings.HasPrefix(s.pkg, "cmd/") || strings.HasPrefix(s.pkg, "studies/") || s.pkg == "internal/console"
}

// TestImportDirection checks that imports run against the flow of data. Programs that measure
// the project may import all of it, and nothing imports them.
func TestImportDirection(t *testing.T) {
	eachSource(t, func(s source) {
		if s.isTest() || testOnly[s.pkg] || strings.HasPrefix(s.pkg, "testdata/") || strings.HasPrefix(s.pkg, "studies/") {
			return
		}
		require.Contains(t, level, s.pkg, "%s has no level", s.path)
		for _, im := range s.file.Imports {
			path, err := strconv.Unquote(im.Path.Value)
			require.NoError(t, err)
			to, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			require.Contains(t, level, to, "%s imports %s", s.path, path)
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
		if s.isTest() || s.isCommand() {
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

// The console and the flags of a command line are the commands': no package that a program may import,
// or that such a package needs, knows them.
func TestCommandLineIsTheCommands(t *testing.T) {
	eachSource(t, func(s source) {
		for _, theirs := range []string{"cmd/gpexplain", "internal/console", "sparse/beam/cmd", "studies"} {
			if s.pkg == theirs || strings.HasPrefix(s.pkg, theirs+"/") {
				return
			}
		}
		for _, i := range s.file.Imports {
			for _, theirs := range []string{"internal/console", "github.com/spf13/", "github.com/schollz/progressbar"} {
				require.NotContains(t, i.Path.Value, theirs, s.path)
			}
		}
	})
}
