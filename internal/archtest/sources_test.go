package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// TestSourcesNameTheirCode checks that doc/sources.md names code and tests that exist, and has no empty cell without a
// reason, which a dash begins.
func TestSourcesNameTheirCode(t *testing.T) {
	tests, code := map[string]bool{}, map[string]bool{} // names; package.Name and package.Type.Method
	eachSource(t, func(s source) {
		pkg := s.file.Name.Name + "."
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if s.isTest() {
					tests[name] = true
					continue
				}
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if star, ok := of.(*ast.StarExpr); ok {
						of = star.X
					}
					if of, ok := of.(*ast.Ident); ok {
						name = of.Name + "." + name
					}
				}
				code[pkg+name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						code[pkg+spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							code[pkg+n.Name] = true
						}
					}
				}
			}
		}
	})
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", "sources.md"))
	require.NoError(t, err)
	items := 0
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| item") {
			continue
		}
		items++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		require.Len(t, cells, 5, line)
		for k, cell := range cells {
			require.True(t, strings.TrimSpace(cell) != "" || strings.Contains(line, "| –"), "an empty cell without a reason: %s", line)
			for _, name := range quoted.FindAllStringSubmatch(cell, -1) {
				switch {
				case k == 3:
					require.True(t, tests[name[1]], "there is no test %s: %s", name[1], line)
				case k == 2 && strings.Contains(name[1], ".") && !strings.Contains(name[1], "/"):
					require.True(t, code[name[1]], "there is no %s: %s", name[1], line)
				}
			}
		}
	}
	require.Greater(t, items, 40)
}
