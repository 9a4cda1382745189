package option

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	for _, x := range []struct {
		text                           Text
		goes, packages, flags, members string
	}{
		{"leave {classes} out", "leave Data.Classes out", "leave Data.Classes out", "leave --classes out", "leave --classes out"},
		{"{standardize} yes", "Standardize yes", "Standardize yes", "--standardize yes", "--standardize yes"},
		{"{seed=7}, {seed=}", "Seed 7, Seed ", "Seed 7, Seed ", "--seed 7, --seed ", "--seed 7, --seed "},
		{"{contrast}: a", "ExplainOptions.Against: a", "ExplainOptions.Against: a", "--contrast: a", "contrast: a"},
		{"by {fit with-inputs}", "by SaveOptions.Inputs", "by SaveOptions.Inputs", "by gpexplain fit --with-inputs", "by gpexplain fit --with-inputs"},
		{"{evidence optimize}", "gpexplain evidence --optimize", "gpexplain evidence --optimize", "gpexplain evidence --optimize", "gpexplain evidence --optimize"},
		{"{ReadOptions.Bind bind=x=n,3}", "Model.Bind x=n,3", "ReadOptions.Bind x=n,3", "--bind x=n,3", "--bind x=n,3"},
		{"{network.Operators inspect operators}", "gpexplain inspect --operators", "network.Operators", "gpexplain inspect --operators", "gpexplain inspect --operators"},
		{"{seed=1}{,}{within=.2}", "Seed 1, Method.Within .2", "Seed 1, Method.Within .2", "--seed 1 --within .2", "--seed 1, --within .2"},
		{"{html}", "--html", "--html", "--html", "--html"},
		{"{{seed}} }", "{seed} }", "{seed} }", "{seed} }", "{seed} }"},
		{"{} { } {", "{} { } {", "{} { } {", "{} { } {", "{} { } {"},
	} {
		require.Equal(t, []string{x.goes, x.packages, x.flags, x.members}, []string{x.text.In(Go), x.text.In(Package), x.text.In(Flags), x.text.In(Members)}, "%q", string(x.text))
		require.Equal(t, x.packages, x.text.String())
	}
	for text, want := range map[Text]string{
		"Give {at=stated}, or {with-inputs} by {seed=7}": `Give at="stated", or with_inputs by seed=7`,
		"{data}, {input=a.csv}, {target}, {id=}, {out}":  `X, X="a.csv", y, ids="", path`,
		"{refit=true}{,}{refit=1}":                       "refit=True, refit=1",
		"{ReadOptions.Bind bind=x=n,3}":                  `bind="x=n,3"`,
		"{fit method=exact}, {html=\"{{}}\"}":            `gpexplain fit --method exact, html="\"{}\""`,
	} {
		require.Equal(t, want, text.In(Python))
	}
	require.Equal(t, "X", First(fmt.Errorf("a: %w", New("1{,}{data} {seed}")), Python))
	require.Empty(t, First(errors.New("{data}"), Python))
	require.Equal(t, []string{"classes", "seed"}, Text("{classes} {{id}} {fit seed=1}").Named())
	require.Equal(t, "--shard and --seed 3", (Named("shard") + " and " + Set("seed", 3)).In(Flags))
	require.Equal(t, "Seed or Method.Within", Join([]Text{"{seed}", "{within}"}, " or ").In(Go))
}

// Only the format and texts name options, whatever their arguments are.
func TestArgumentsAreNoFormat(t *testing.T) {
	text := Textf("{id=%s} %q %v %5.1f %[2]q", "{seed}", "}{data}", []string{"{top}"}, 1.25)
	require.Equal(t, `Data.ID {seed} "}{data}" [{top}]   1.2 "}{data}"`, text.In(Go))
	text = Textf("{id}: %v %s|%-6s|", Textf("{likelihood} %s", "{x}"), Errorf("{at}: %s", "{y}"), "a")
	require.Equal(t, `Data.ID: Likelihood {x} Prior: {y}|a     |`, text.In(Go))
	require.Equal(t, []string{"id", "likelihood", "at"}, text.Named())
}

// An error is worded through the errors that wrap it.
func TestErrorsAreWorded(t *testing.T) {
	inner := Errorf("{inducing=%d}: %w; give {within}", 7, fs.ErrNotExist)
	require.EqualError(t, inner, "Method.Inducing 7: file does not exist; give Method.Within")
	require.ErrorIs(t, inner, fs.ErrNotExist)
	for err, want := range map[error]string{
		inner:                                   "--inducing 7: file does not exist; give --within",
		fmt.Errorf("{seed} Method: %w.", inner): "{seed} Method: --inducing 7: file does not exist; give --within.",
		Errorf("{model}: %w", fmt.Errorf("a: %w", inner)):              "--model: a: --inducing 7: file does not exist; give --within",
		errors.Join(inner, New("{id}")):                                "--inducing 7: file does not exist; give --within\n--id",
		Errorf("{model}: %v", fmt.Errorf("a: %w", inner)):              "--model: a: --inducing 7: file does not exist; give --within",
		fmt.Errorf("a: %v", inner):                                     "a: " + inner.Error(),
		Trimmed(fmt.Errorf("network: %w", New("{seed}")), "network: "): "--seed",
	} {
		require.Equal(t, want, Word(err, Flags))
		require.Equal(t, err.Error(), Word(err, Package))
	}
	require.ErrorIs(t, Trimmed(inner, "Method"), fs.ErrNotExist)
}

func TestTable(t *testing.T) {
	require.True(t, slices.IsSortedFunc(Table, func(a, b Option) int { return strings.Compare(a.Name, b.Name) }))
}
