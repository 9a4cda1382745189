package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// trained returns the training rows of the small problem, and those of label 9.
func trained(t *testing.T) (rows, nines []string) {
	r := decode[result.Report](t, succeed(t, small("explain", "--json", "--top", "1000")...))
	for _, c := range r.Outputs[0].Contributions {
		rows = append(rows, fmt.Sprint(c.Index))
		if c.Label == 9 {
			nines = append(nines, fmt.Sprint(c.Index))
		}
	}
	return rows, nines
}

// --without predicts what a fit without these rows does.
func TestExplainWithout(t *testing.T) {
	rows, _ := trained(t)
	out := []string{rows[0], rows[5]}
	got := decode[result.Report](t, succeed(t, small("explain", "--json", "--refit", "--calibrate", "none", "--without", strings.Join(out, ","))...))
	require.NotNil(t, got.Without)
	require.Nil(t, got.Flip)

	left := filepath.Join(t.TempDir(), "rows.txt")
	stay := slices.DeleteFunc(slices.Clone(rows), func(r string) bool { return slices.Contains(out, r) })
	slices.Sort(stay)
	require.NoError(t, os.WriteFile(left, []byte(strings.Join(stay, "\n")+"\n"), 0o600))
	want := decode[result.Report](t, succeed(t, "explain", "--json", "--refit", "--data", "digits:400,100", "--train-index", left, "--calibrate", "none"))
	require.InDelta(t, float64(want.Prediction.Mean[0]), float64(got.Without.Mean[0]), 1e-6)
	for k, p := range want.Prediction.Probability {
		require.InDelta(t, float64(p), float64(got.Without.Probability[k]), 1e-6)
	}
	require.EqualValues(t, 4, got.Without.Class)
	few := decode[result.Report](t, succeed(t, small("explain", "--json", "--quiet", "--refit", "--calibrate", "none", "--method", "kept", "--without", strings.Join(out, ","))...))
	require.InDelta(t, float64(got.Without.Mean[0]), float64(few.Without.Mean[0]), 1e-5)
	require.Equal(t, fmt.Sprint(got.Without.Rows), "["+strings.Join(out, " ")+"]")
}

// --flip of a row and then of its label back is the prediction as it was; text and page say
// what would be predicted.
func TestExplainFlip(t *testing.T) {
	_, nines := trained(t)
	args := []string{"--flip", nines[0] + "=4," + nines[1] + "=4"}
	got := decode[result.Report](t, succeed(t, small("explain", append(args, "--json")...)...))
	require.Nil(t, got.Without)
	require.Equal(t, []result.Float{4, 4}, got.Flip.Labels)
	require.Less(t, float64(got.Flip.Mean[0]), float64(got.Prediction.Mean[0]), "more fours speak for 4")

	page := filepath.Join(t.TempDir(), "page.html")
	text := strings.Join(strings.Fields(succeed(t, small("explain", append(args, "--html", page)...)...)), " ")
	say := fmt.Sprintf("With these 2 training examples, rows %s, %s, labelled 4, f would be ", nines[0], nines[1])
	require.Contains(t, text, say)
	require.Contains(t, text, ", and the prediction would stay 4, with probability ")
	require.Contains(t, strings.ReplaceAll(read(t, page), "\u00a0", " "), say)

	// A saved posterior answers the same.
	saved := filepath.Join(t.TempDir(), "a.gp")
	succeed(t, small("fit", "--quiet", "-o", saved)...)
	loaded := decode[result.Report](t, succeed(t, append([]string{"explain", "--json", "--data", "digits:400,100", "--posterior", saved}, args...)...))
	require.InDelta(t, float64(got.Flip.Mean[0]), float64(loaded.Flip.Mean[0]), 1e-6)
}

// A change that cannot be has one clear error.
func TestExplainChangesThatCannotBe(t *testing.T) {
	rows, nines := trained(t)
	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{2, "must list training rows such as 12", []string{"--without", "x"}},
		{2, "--without is empty", []string{"--without", ""}},
		{2, "names training row 4 twice", []string{"--without", "4,4"}},
		{2, "exclude each other", []string{"--without", "4", "--flip", "4=9"}},
		{2, "must give training rows other labels", []string{"--flip", "4"}},
		{2, "must give training rows other labels", []string{"--flip", "x=9"}},
		{2, "names training row 4 twice", []string{"--flip", "4=9,4=9"}},
		{1, "train row 100000 of digits (seed 0) is not among the 60 training rows", []string{"--without", "100000"}},
		{1, "--without names all 60 training rows", []string{"--without", strings.Join(rows, ",")}},
		{1, "leaves training rows of class 4 alone, and the bernoulli likelihood needs two classes", []string{"--without", strings.Join(nines, ",")}},
		{1, "leaves training rows of class 4 alone", []string{"--flip", strings.Join(nines, "=4,") + "=4"}},
		{1, "that is the label of training row " + nines[0] + " already", []string{"--flip", nines[0] + "=9"}},
		{1, "3 is not one of the classes 4,9", []string{"--flip", nines[0] + "=3"}},
		{1, "give --method exact or kept", []string{"--without", rows[0], "--method", "nystrom", "--inducing", "20"}},
	} {
		require.Contains(t, refuse(t, test.code, small("explain", test.args...)...), test.want)
	}
}

// Of a refit that stopped far from its mode any answer for other training data would be that of
// rounding. Its warnings are on standard error beside the JSON that holds them, once each, unless
// --quiet.
func TestExplainOfARefitThatDidNotArrive(t *testing.T) {
	args := []string{"explain", "--train-count", "100", "--prior-precision", "1e-12", "--json"}
	for _, change := range [][]string{{"--without", "1"}, {"--without", "1", "--refit"}, {"--smallest-flip"}} {
		require.Contains(t, refuse(t, 1, append(args, change...)...), "the refit did not arrive at its mode")
	}
	r := gpexplain(t.Context(), args...)
	require.Equal(t, 0, r.code, r.stderr)
	warnings := decode[result.Report](t, r.stdout).Fit.Warnings
	require.NotEmpty(t, warnings)
	for _, text := range warnings {
		require.Equal(t, 1, strings.Count(r.stderr, "gpexplain: warning: "+text.Error()+"\n"), r.stderr)
	}
	require.Empty(t, gpexplain(t.Context(), append(args, "--quiet")...).stderr)
}

// A regression has a mean and no class, and no labels to flip.
func TestExplainWithoutOfARegression(t *testing.T) {
	ref := openReference(t, "snelson")
	text := ref.run(t, "explain", "--json", "--without", "3-5")
	requireSchema(t, "explain", text)
	got := decode[result.Report](t, text)
	require.Len(t, got.Without.Rows, 3)
	require.Nil(t, got.Without.Probability)
	require.False(t, got.Without.Class.Finite())
	require.Contains(t, ref.run(t, "explain", "--without", "3"), "the mean of f would be")
}
