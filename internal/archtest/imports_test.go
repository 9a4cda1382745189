package archtest

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

// rooms are the folders of the project in the order in which data flow through them, as doc/architecture.md draws it. A package
// belongs to the room with the longest path that it begins with, and imports only packages of its room and of those before.
var rooms = [][]string{
	{"internal", "doc/clients", ".ci"}, // tools that know nothing of networks
	{"internal/store"},                 // files of posteriors
	{"internal/dataset", "linearize/rowfile"},
	{"linearize"},
	{"internal/jacobian", "internal/newton", "internal/saved", "ntk"},
	{"gp", "internal/sites"},
	{"glm/integral", "glm"},
	{"sparse"},
	{"glm/score", "glm/novelty", "glm/weightspace", "glm/variational", "glm/autoencoder", "gp/evidence"},
	{"explain"},
	{"internal/job"},
	{"."}, // package funcgp
	{"explain/report", "explain/serve", "sparse/parts", "doc/examples"},
	{"cmd", "internal/console", "sparse/beam", "studies"},
}

// roomOf is the place among rooms of a package, -1 for none.
func roomOf(pkg string) int {
	room, longest := -1, -1
	for i, folders := range rooms {
		for _, f := range folders {
			if (pkg == f || strings.HasPrefix(pkg, f+"/")) && len(f) > longest {
				room, longest = i, len(f)
			}
		}
	}
	return room
}

// testOnly lists the packages that only tests import. They may import all but
// the commands.
var testOnly = map[string]bool{
	"internal/archtest": true, "gp/gptest": true, "internal/testkit": true, "internal/testref": true,
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
		room := roomOf(s.pkg)
		require.GreaterOrEqual(t, room, 0, "%s has no room", s.path)
		for _, im := range s.file.Imports {
			path, err := strconv.Unquote(im.Path.Value)
			require.NoError(t, err)
			to, ours := strings.CutPrefix(path+"/", module)
			if !ours {
				continue
			}
			to = pathpkg.Clean(to) // "" is the root's "."
			require.LessOrEqual(t, roomOf(to), room, "%s imports %s", s.path, path)
		}
	})
}

// leaves are packages that know nothing of models, data and posteriors.
var leaves = []string{"internal/atomicfile", "internal/inputfile", "internal/job", "internal/npy", "internal/option", "internal/picture", "internal/store", "linearize"}

// clients are the packages that stand on package funcgp, and what of the module they may import besides leaves.
var clients = map[string][]string{
	"cmd/gpexplain": {".", "cmd/gpexplain", "explain/report", "explain/serve", "explain/result", "sparse/parts", "sparse/shard", "internal/console",
		"linearize/network", "linearize/train", "glm/autoencoder", // train, reconstruct
		"glm/variational", "ntk", // train by natural gradients, under a prior
		"explain/audit",  // acquire, which is written on what programs have
		"explain", "gp"}, // terms that parts merge, and their kernel
	"explain/serve":  {".", "explain/report", "explain/result"},
	"explain/report": {"explain", "explain/result", "glm", "glm/score", "gp"},
	"sparse/parts":   {".", "explain", "explain/audit", "explain/result", "gp", "sparse/shard"},
	"sparse/beam":    {".", "explain/report", "explain/result", "sparse", "sparse/beam", "sparse/parts", "sparse/shard"},
}

// TestClientsOfTheLibrary checks that the command, the server, pages and parts answer by package funcgp, and not by what
// is behind it.
func TestClientsOfTheLibrary(t *testing.T) {
	eachSource(t, func(s source) {
		for client, may := range clients {
			if s.isTest() || s.pkg != client && !strings.HasPrefix(s.pkg, client+"/") {
				continue
			}
			for _, im := range s.file.Imports {
				path, err := strconv.Unquote(im.Path.Value)
				require.NoError(t, err)
				to, ours := strings.CutPrefix(path+"/", module)
				if to = pathpkg.Clean(to); !ours || strings.HasPrefix(to, client+"/") {
					continue
				}
				require.Contains(t, append(leaves, may...), to, "%s imports %s", s.path, path)
			}
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
