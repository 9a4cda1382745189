package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestOptionsAreData checks that a message names an option in braces, as internal/option has them, and that its table
// has every option that is named. Only the command and the pages, which are text for people, write flags.
func TestOptionsAreData(t *testing.T) {
	flag, named := regexp.MustCompile(`(^|[^-\w])--[a-z]`), map[string]bool{}
	known := map[string]bool{",": true}
	for _, o := range option.Table {
		known[o.Name] = true
	}
	eachSource(t, func(s source) {
		if s.isTest() || s.isCommand() || strings.HasPrefix(s.pkg, "testdata/") || testOnly[s.pkg] || s.pkg == "explain/report" || strings.HasPrefix(s.pkg, "sparse/beam") || s.pkg == "internal/option" {
			return
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text := testref.Must(strconv.Unquote(lit.Value))(t)
			assert.False(t, flag.MatchString(text), "%v: name the option in braces: %s", s.set.Position(lit.Pos()), text)
			for _, name := range option.Text(text).Named() {
				named[name] = true
				if name[0] >= 'a' && !strings.ContainsAny(name, `_%`) && s.pkg != "explain/serve" { // patterns have braces too
					assert.True(t, known[name], "%v: internal/option has no option %q: %s", s.set.Position(lit.Pos()), name, text)
				}
			}
			return true
		})
	})
	for _, o := range option.Table {
		assert.True(t, named[o.Name] || o.Go != "" || o.Help != "" || o.Python != "", "nobody names %s", o.Name)
	}
}
