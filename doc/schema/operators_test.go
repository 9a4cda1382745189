package schema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize/network"
)

// lists finds the tables of doc/operators.md: all that follows the comment that names the
// command.
var lists = regexp.MustCompile(`(?s)(<!-- gpexplain inspect --operators -->\n).*`)

// TestOperatorsPage keeps the tables of doc/operators.md in step with the operators that
// are read.
func TestOperatorsPage(t *testing.T) {
	page := filepath.Join("..", "operators.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var tables strings.Builder
	group := ""
	for _, o := range network.Operators() {
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(&tables, "\n## %s\n\n| operator | what of it is not read, or in a special way |\n|---|---|\n", group)
		}
		fmt.Fprintf(&tables, "| %s | %s |\n", o.Name, strings.ReplaceAll(o.Note, "|", "\\|"))
	}
	tables.WriteString("\n## Not read\n\n| operators | why | what to do |\n|---|---|---|\n")
	for _, u := range network.UnreadOperators() {
		fmt.Fprintf(&tables, "| %s | %s | %s |\n", u.Operators, u.Reason.In(option.Flags), u.Cure.In(option.Flags))
	}
	require.Regexp(t, lists, string(text))
	require.Contains(t, string(text), fmt.Sprintf("opset %d to %d", network.MinOpset, network.MaxOpset))
	want := lists.ReplaceAllStringFunc(string(text), func(string) string {
		return "<!-- gpexplain inspect --operators -->\n" + tables.String()
	})
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		text = []byte(want)
	}
	require.True(t, want == string(text), "doc/operators.md does not list what is read; run go test ./doc/schema -update")
}
