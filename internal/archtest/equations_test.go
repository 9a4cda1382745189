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

var (
	equationHeading = regexp.MustCompile(`(?m)^### \((E\d+)\)`)
	equationNumber  = regexp.MustCompile(`\bE[1-9]\d?\b`)
	namedFile       = regexp.MustCompile("`([^`]+\\.go)`(?: \\(`(\\w+)`\\))?")
)

// equations returns the sections of doc/equations.md by their numbers.
func equations(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", "equations.md"))
	require.NoError(t, err)
	at := equationHeading.FindAllStringSubmatchIndex(string(text), -1)
	sections := map[string]string{}
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		number := string(text[m[2]:m[3]])
		require.NotContains(t, sections, number, "stated twice")
		sections[number] = string(text[m[0]:end])
	}
	return sections
}

// TestEquationsAreListed checks that each equation that a comment cites is in
// doc/equations.md.
func TestEquationsAreListed(t *testing.T) {
	listed := equations(t)
	require.NotEmpty(t, listed)
	eachSource(t, func(s source) {
		for _, group := range s.file.Comments {
			for _, number := range equationNumber.FindAllString(group.Text(), -1) {
				require.Contains(t, listed, number, "%v", s.set.Position(group.Pos()))
			}
		}
	})
}

// TestEquationsNameTheirFiles checks that each file named for an equation in
// doc/equations.md exists and cites it, that it has the function that stands after it, and that
// an equation that is said not to be implemented is cited by no code.
func TestEquationsNameTheirFiles(t *testing.T) {
	cited := map[string]map[string]bool{}    // file, equation
	declared := map[string]map[string]bool{} // file, function
	eachSource(t, func(s source) {
		if s.isTest() {
			return
		}
		cited[s.path], declared[s.path] = map[string]bool{}, map[string]bool{}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				declared[s.path][f.Name.Name] = true
			}
		}
		for _, group := range s.file.Comments {
			for _, number := range equationNumber.FindAllString(group.Text(), -1) {
				cited[s.path][number] = true
			}
		}
	})
	for number, text := range equations(t) {
		require.Contains(t, text, "Source: ", number)
		files := namedFile.FindAllStringSubmatch(text, -1)
		if strings.Contains(text, "Not implemented.") {
			require.Empty(t, files, number)
			for path, numbers := range cited {
				require.False(t, numbers[number], "%s cites %s, which is said not to be implemented", path, number)
			}
			continue
		}
		require.NotEmpty(t, files, number)
		for _, f := range files {
			require.Contains(t, cited, f[1], number)
			require.True(t, cited[f[1]][number], "%s is said to compute %s and does not cite it", f[1], number)
			require.True(t, f[2] == "" || declared[f[1]][f[2]], "%s has no function %s", f[1], f[2])
		}
	}
}
