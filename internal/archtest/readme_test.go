package archtest

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/testref"
)

func why(ctx context.Context, out io.Writer) error {
	p, err := funcgp.Fit(ctx, funcgp.Model{}, funcgp.Data{}, nil) // built in; or Model{File: "net.onnx"}, Data{Source: "train.csv"}
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Check(); err != nil { // the network does not suit the data or the prior
		return err
	}
	rows, err := p.TestRows(ctx, 6) // or p.ReadCSV, p.Records, p.Picture
	if err != nil {
		return err
	}
	list, err := p.Explain(ctx, rows, &funcgp.ExplainOptions{Top: 3})
	if err != nil {
		return err
	}
	x, sum := list[0].Prediction, list[0].Main()
	fmt.Fprintf(out, "P(%s) = %.3f; %s against %s: %.2f = %.2f + %.2f + %.2f\n", p.ClassName(x.Class), x.Probability[x.Best()],
		sum.Name, sum.Other, sum.Network, sum.PriorMean, sum.ContributionSum, sum.Remainder)
	for _, c := range sum.Contributions {
		fmt.Fprintf(out, "training row %d, a %v: %+.2f ± %.2f\n", c.Index, c.Label, c.Value, *c.SD)
	}
	return nil
}

// TestReadmeExample checks that the README shows the function above, and runs
// it.
func TestReadmeExample(t *testing.T) {
	readme := testref.Must(os.ReadFile(filepath.Join("..", "..", "README.md")))(t)
	self := testref.Must(os.ReadFile("readme_test.go"))(t)
	_, rest, ok := strings.Cut(string(self), "\nfunc why(")
	require.True(t, ok)
	body, _, ok := strings.Cut(rest, "\n}\n")
	require.True(t, ok)
	require.Equal(t, 1, strings.Count(string(readme), "```go\n"), "another one is not run")
	require.Contains(t, string(readme), "```go\nfunc why("+body+"\n}\n```")

	var out bytes.Buffer
	require.NoError(t, why(t.Context(), &out))
	require.Regexp(t, `^P\(4\) = 0\.993; 9 against 4: -5\.45 = 21\.51 \+ -27\.25 \+ 0\.29\ntraining row 1696, a 4: -1\.70 ± 0\.63\n`, out.String())
}

// TestWarnings checks every call of linearize.NewWarning: its code is an anchor of
// doc/warnings.md, which has no others; its text has at most two sentences, and its remedy one;
// the packages below name no options of package funcgp, and internal/job says which to set for each of their codes.
func TestWarnings(t *testing.T) {
	sentence, kebab := regexp.MustCompile(`[.!?]( |$)`), regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	codes, library, remedies := map[string]bool{}, map[string]bool{}, map[string]bool{}
	eachSource(t, func(s source) {
		// These packages are shared by the command and the package at the root.
		ofCommand := s.isCommand() || slices.Contains([]string{".", "internal/console", "internal/job", "sparse/parts"}, s.pkg)
		if s.isTest() || strings.HasPrefix(s.pkg, "testdata/") {
			return
		}
		var literal func(e ast.Expr) (string, bool)
		literal = func(e ast.Expr) (string, bool) {
			if sum, ok := e.(*ast.BinaryExpr); ok { // of literals, in several lines
				left, first := literal(sum.X)
				right, second := literal(sum.Y)
				return left + right, first && second
			}
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return "", false
			}
			text := testref.Must(strconv.Unquote(lit.Value))(t)
			return text, true
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == "remedies" && s.pkg == "internal/job" {
				for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
					code, _ := literal(e.(*ast.KeyValueExpr).Key)
					remedies[code] = true
					text, _ := literal(e.(*ast.KeyValueExpr).Value)
					require.LessOrEqual(t, len(sentence.FindAllString(text, -1)), 1, text)
				}
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "NewWarning" {
				return true
			}
			at := s.set.Position(call.Pos())
			code, ok := literal(call.Args[0])
			require.True(t, ok && kebab.MatchString(code), "%v: the code of a warning is a literal, words of lower case and hyphens", at)
			codes[code] = true
			text, ok := literal(call.Args[4])
			require.True(t, ok, "%v: the text of a warning is a literal", at)
			require.LessOrEqual(t, len(sentence.FindAllString(text, -1)), 2, "%v: %s", at, text)
			remedy, ok := literal(call.Args[3])
			require.LessOrEqual(t, len(sentence.FindAllString(remedy, -1)), 1, "%v: %s", at, remedy)
			require.NotContains(t, text+remedy, ";", "%v: a sentence says one thing", at)
			if !ofCommand {
				require.True(t, ok, "%v: the remedy of a warning is a literal", at)
				require.NotContains(t, text+remedy, "{", "%v: an option", at)
				if remedy != "" {
					library[code] = true
				}
			}
			return true
		})
	})
	doc := testref.Must(os.ReadFile(filepath.Join("..", "..", "doc", "warnings.md")))(t)
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(string(doc), -1) {
		anchors = append(anchors, m[1])
	}
	require.True(t, slices.IsSorted(anchors), "doc/warnings.md is in alphabetical order")
	require.Equal(t, slices.Sorted(maps.Keys(codes)), anchors, "doc/warnings.md explains every code, once")
	require.Equal(t, slices.Sorted(maps.Keys(library)), slices.Sorted(maps.Keys(remedies)), "the command's remedies are those of the library's warnings")
}
