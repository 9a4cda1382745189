package archtest

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// imports returns what the non-test files of a package of the module import,
// directly or through other packages of the module: each import path with the
// package that names it. Build tags are ignored, so that it holds on every
// platform.
func imports(t *testing.T, pkg string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for queue := []string{pkg}; len(queue) > 0; queue = queue[1:] {
		files := testref.Must(filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(queue[0]), "*.go")))(t)
		require.NotEmpty(t, files, queue[0])
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text := testref.Must(os.ReadFile(path))(t)
			file := testref.Must(parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly))(t)
			for _, im := range file.Imports {
				name := testref.Must(strconv.Unquote(im.Path.Value))(t)
				if _, seen := all[name]; seen {
					continue
				}
				all[name] = queue[0]
				if ours, ok := strings.CutPrefix(name, module); ok {
					queue = append(queue, ours)
				}
			}
		}
	}
	return all
}

// reaches returns the imports that begin with one of the prefixes.
func reaches(t *testing.T, pkg string, prefixes ...string) []string {
	t.Helper()
	var found []string
	for name, by := range imports(t, pkg) {
		for _, p := range prefixes {
			if name == p || strings.HasPrefix(name, p+"/") {
				found = append(found, name+" by "+by)
			}
		}
	}
	return found
}

var (
	drawing = []string{"golang.org/x/image", "html/template", "text/template", "gonum.org/v1/plot"}
	onnx    = []string{module + "internal/onnx", "google.golang.org/protobuf"}
)

// TestExplainDrawsNothing checks that the sums over examples can be had
// without the fonts and templates of their pages.
func TestExplainDrawsNothing(t *testing.T) {
	require.Empty(t, reaches(t, "explain", drawing...))
	require.NotEmpty(t, reaches(t, "explain/report", drawing...), "the test finds what is there")
}

// TestAnswersDrawNothing checks that the root package and all below it have their answers as plain
// data, without the package that draws them.
func TestAnswersDrawNothing(t *testing.T) {
	report := module + "explain/report"
	for _, pkg := range []string{".", "explain/result"} {
		require.Empty(t, reaches(t, pkg, report, "html/template"), pkg)
	}
	require.NotEmpty(t, reaches(t, "cmd/gpexplain", report), "the test finds what is there")
}

// TestInferenceReadsNoONNX checks that inference needs no reader of files of
// networks.
func TestInferenceReadsNoONNX(t *testing.T) {
	for _, pkg := range []string{"linearize", "ntk", "gp", "sparse", "glm", "glm/weightspace", "glm/variational"} {
		require.Empty(t, reaches(t, pkg, onnx...), pkg)
	}
	require.NotEmpty(t, reaches(t, "linearize/network", onnx...), "the test finds what is there")
}

// TestPackagesSayWhatTheyAre checks that each package has a comment.
func TestPackagesSayWhatTheyAre(t *testing.T) {
	documented := map[string]bool{}
	eachSource(t, func(s source) {
		if !s.isTest() {
			documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil
		}
	})
	for pkg, said := range documented {
		require.True(t, said, "%s has no package comment", pkg)
	}
}
