package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

func TestExplainFields(t *testing.T) {
	text := succeed(t, small("explain", "--json")...)
	requireSchema(t, "explain", text)
	r := decode[result.Report](t, text)
	require.Equal(t, "test", r.Input.Split)
	require.EqualValues(t, 6, r.Input.Index, "the first test row that is a 4 or a 9")
	require.EqualValues(t, 4, r.Input.Label)
	require.Len(t, r.Outputs, 1)
	require.Len(t, r.Outputs[0].Contributions, 8)
	require.Equal(t, 60, r.Fit.Examples)
	require.Equal(t, 1, r.Fit.Outputs)
	require.Equal(t, 4587, r.Fit.Parameters)
	require.EqualValues(t, 10, r.Fit.PriorPrecision, "from the metadata")
	require.False(t, r.Fit.Refit)
	require.Equal(t, "stated", r.Fit.Match.Used, "the network was trained on other rows")
	require.EqualValues(t, 10, *r.Fit.StatedPrecision)
}

// One number a class in the order of --classes, for one output too.
func TestExplainProbabilities(t *testing.T) {
	model := untold(t)
	for _, classes := range []string{"4,9", "9,4"} {
		r := decode[result.Report](t, succeed(t, small("explain", "--model", model, "--json", "--classes", classes, "--force", "--index", "24", "--quiet")...))
		p, f := r.Prediction, float64(r.Outputs[0].Network)
		require.Len(t, p.Probability, 2)
		// g⁻¹(f) is the probability of the second class.
		require.InDelta(t, sigmoid(f), float64(p.MAPProbability[1]), 1e-15)
		require.InEpsilon(t, sigmoid(-f), float64(p.MAPProbability[0]), 1e-14, "no digits lost near 1")
		// Two integrals with the weights of one rule.
		require.InDelta(t, 1, float64(p.Probability[0]+p.Probability[1]), 1e-12)
		require.Equal(t, p.ProbabilitySD[0], p.ProbabilitySD[1])
		second := classes[2:]
		require.Equal(t, f > 0, strconv.Itoa(int(p.Class)) == second, "class is the argmax")
		require.EqualValues(t, 9, r.Input.Label, "the data's own label, whatever the order")
	}
}

// Every number against PyTorch's, through CSV files and metadata.
func TestExplainReference(t *testing.T) {
	for _, name := range toys {
		t.Run(name, func(t *testing.T) {
			ref := openReference(t, name)
			for _, row := range []int{0, 7} {
				r := decode[result.Report](t, ref.run(t, "explain", "--json", "--refit", "--index", strconv.Itoa(row), "--top", strconv.Itoa(ref.n+5)))
				requireExplained(t, ref, r, row)
				closeTo(t, floats(r.Prediction.Mean), ref.head("refit_mean_test", row), 1e-7, "mean")
				require.InEpsilon(t, ref.Scalar("refit_log_evidence"), float64(r.Fit.LogEvidence), 1e-8)
				require.InEpsilon(t, ref.Scalar("refit_log_det"), float64(r.Fit.LogDet), 1e-7)
				for c, o := range single(t, r) {
					// DESIGN: under refit the mean is prior mean + sum.
					require.InDelta(t, float64(r.Prediction.Mean[c]), float64(o.PriorMean+o.ContributionSum), 1e-9*scale(o))
				}
			}
		})
	}
}

// single returns the explanations of single outputs. Where each class has an output,
// the contrast of the predicted class with the next most probable follows them.
func single(t *testing.T, r result.Report) []result.Output {
	t.Helper()
	c := r.Fit.Outputs
	if c == 1 || r.Classes == nil {
		return r.Outputs
	}
	require.Len(t, r.Outputs, c+1)
	first, second := 0, -1
	for k, f := range r.Outputs[:c] {
		if f.Network > r.Outputs[first].Network {
			first = k
		}
	}
	for k, p := range r.Prediction.Probability {
		if k != first && (second < 0 || p > r.Prediction.Probability[second]) {
			second = k
		}
	}
	x, a, b := r.Outputs[c], r.Outputs[first], r.Outputs[second]
	require.Equal(t, &result.Contrasted{Plus: first, Minus: second}, x.Contrast)
	require.Equal(t, x.Network, a.Network-b.Network)
	require.InDelta(t, float64(a.ContributionSum-b.ContributionSum), float64(x.ContributionSum), 1e-9*scale(a))
	var sum result.Float
	examples := 0
	for _, s := range x.Subtotals {
		sum, examples = sum+s.Positive+s.Negative, examples+s.Examples
	}
	require.InDelta(t, float64(x.ContributionSum), float64(sum), 1e-9*scale(a))
	require.Equal(t, r.Fit.Examples, examples)
	return r.Outputs[:c]
}

// requireExplained compares the list of all terms with the reference's.
func requireExplained(t *testing.T, ref *reference, r result.Report, row int) {
	t.Helper()
	require.Len(t, single(t, r), ref.c)
	for c, o := range single(t, r) {
		require.Len(t, o.Contributions, ref.n, "--top above N prints all N")
		require.True(t, slices.IsSortedFunc(o.Contributions, func(a, b result.Contribution) int {
			return -compare(math.Abs(float64(a.Value)), math.Abs(float64(b.Value)))
		}), "largest first")
		value, raw, pseudo := make([]float64, ref.n), make([]float64, ref.n), make([]float64, ref.n*ref.c)
		abs := 0.0
		for _, x := range o.Contributions {
			i := int(x.Index)
			value[i], raw[i] = float64(x.Value), float64(x.Raw)
			abs += math.Abs(value[i])
			copy(pseudo[i*ref.c:], floats(x.PseudoTarget))
			require.Len(t, x.Alpha, ref.c)
			require.Equal(t, ref.Floats("y_train")[i], float64(x.Label))
		}
		part := func(name string) []float64 { return ref.head(name, row)[c*ref.n : (c+1)*ref.n] }
		closeTo(t, value, part("refit_posterior_contribution_head"), 1e-7, "value")
		closeTo(t, raw, part("refit_contribution_head"), 1e-7, "raw")
		closeTo(t, pseudo, ref.Floats("refit_pseudo_target"), 1e-7, "pseudo_target")
		require.InDelta(t, float64(o.ContributionSum), sum(value), 1e-9*scale(o))
		require.InDelta(t, float64(o.ContributionSum), sum(raw), 1e-9*scale(o)*float64(o.RawCancellation))
		require.InEpsilon(t, abs/math.Abs(float64(o.ContributionSum)), float64(o.Cancellation), 1e-9)
		require.InDelta(t, float64(r.Prediction.Mean[c]-o.PriorMean-o.ContributionSum), float64(o.Remainder), 1e-12*scale(o))
		require.InDelta(t, ref.head("prior_mean_test", row)[c], float64(o.PriorMean), 1e-8*scale(o))
		require.InDelta(t, ref.head("f_test", row)[c], float64(o.Network), 1e-10*scale(o))
	}
}

// scale is the largest number in an output's sum.
func scale(o result.Output) float64 {
	return max(1, math.Abs(float64(o.Network)), math.Abs(float64(o.PriorMean)), math.Abs(float64(o.ContributionSum)))
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func floats(v []result.Float) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// The mean is the network's output, and the sums are those of the refit: the remainder is what they leave.
func TestExplainWithoutRefit(t *testing.T) {
	for _, name := range toys {
		ref := openReference(t, name)
		r := decode[result.Report](t, ref.run(t, "explain", "--json", "--index", "3", "--top", "1"))
		closeTo(t, floats(r.Prediction.Mean), ref.head("f_test", 3), 1e-10, name+" mean")
		require.False(t, r.Fit.Refit)
		require.InEpsilon(t, ref.Scalar("refit_log_evidence"), float64(r.Fit.LogEvidence), 1e-8)
		for c, o := range single(t, r) {
			require.Len(t, o.Contributions, 1)
			want := ref.head("refit_mean_test", 3)[c] - ref.head("prior_mean_test", 3)[c]
			require.InDelta(t, want, float64(o.ContributionSum), 1e-7*scale(o), name)
			require.InDelta(t, float64(r.Prediction.Mean[c]), float64(o.PriorMean+o.ContributionSum+o.Remainder), 1e-12*scale(o))
		}
	}
}

// --terms chooses the order of the list and changes no number.
func TestExplainRawTerms(t *testing.T) {
	list := func(terms string) map[int]result.Contribution {
		r := decode[result.Report](t, succeed(t, small("explain", "--json", "--top", "60", "--terms", terms)...))
		key := func(x result.Contribution) float64 {
			if terms == "raw" {
				return math.Abs(float64(x.Raw))
			}
			return math.Abs(float64(x.Value))
		}
		all := map[int]result.Contribution{}
		for i, x := range r.Outputs[0].Contributions {
			all[int(x.Index)] = x
			if i > 0 {
				require.LessOrEqual(t, key(x), key(r.Outputs[0].Contributions[i-1]))
			}
		}
		return all
	}
	require.Equal(t, list("posterior"), list("raw"))
}

func TestExplainContrast(t *testing.T) {
	ref := openReference(t, "categorical")
	text := ref.run(t, "explain", "--json", "--contrast", "3,1", "--top", "4")
	r := decode[result.Report](t, text)
	require.Len(t, r.Outputs, 5, "every output, then the contrast")
	o := r.Outputs[4]
	require.Contains(t, text, `{"output":null,"contrast":{"plus":3,"minus":1},`)
	require.InDelta(t, float64(r.Outputs[3].Network-r.Outputs[1].Network), float64(o.Network), 1e-12)
	require.InDelta(t, float64(r.Outputs[3].ContributionSum-r.Outputs[1].ContributionSum), float64(o.ContributionSum), 1e-9)
	// --classes relabels: outputs 0 to 3 stand for 3, 2, 1, 0.
	r = decode[result.Report](t, ref.run(t, "explain", "--json", "--classes", "3,2,1,0", "--force", "--quiet", "--contrast", "3,1", "--top", "4"))
	require.Equal(t, &result.Contrasted{Plus: 0, Minus: 2}, r.Outputs[4].Contrast)

	text = ref.run(t, "explain", "--contrast", "3,1")
	require.Contains(t, text, "Why 3 rather than 1")
}

// The page says what the text says, and is a complete file.
func TestExplainPages(t *testing.T) {
	dir := t.TempDir()
	html := filepath.Join(dir, "für die Kundin 日本.html")
	require.Equal(t, succeed(t, small("explain")...), succeed(t, small("explain", "--html", html)...))
	page := testref.Must(os.ReadFile(html))(t)
	require.Contains(t, string(page), "</html>")
	require.Contains(t, string(page), "--html", "the command is recorded")
	require.Len(t, listing(t, dir), 1)
}

func TestExplainVerbose(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	r := gpexplain(t.Context(), small("explain", "--verbose", "--html", page)...)
	require.Zero(t, r.code)
	require.Contains(t, r.stderr, "60 training examples")
	require.Contains(t, r.stderr, "wrote "+page)
}

// The same numbers to the last bit for any number of workers.
func TestExplainWorkers(t *testing.T) {
	number := func(workers string) string {
		return withoutTimings(t, succeed(t, "explain", "--json", "--data", "digits:900,100", "--train-count", "150", "--top", "150", "--workers", workers))
	}
	require.Equal(t, number("1"), number("2"))
}

// The parts sum to the total; DESIGN allows 5 %.
func TestTimings(t *testing.T) {
	x := decode[result.Report](t, succeed(t, small("explain", "--json")...)).Timings
	parts := x.Load + x.Linearize + x.Kernel + x.Factorize + x.Predict + x.Write
	require.InEpsilon(t, float64(x.Total), float64(parts), 1e-6)
	for _, part := range []result.Float{x.Load, x.Linearize, x.Kernel, x.Factorize, x.Predict, x.Write} {
		require.GreaterOrEqual(t, float64(part), 0.0)
	}
}

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
// --quiet. At precisions such as 1e-14 some processors arrive by luck.
func TestExplainOfARefitThatDidNotArrive(t *testing.T) {
	args := []string{"explain", "--train-count", "100", "--prior-precision", "1e-20", "--json"}
	for _, change := range [][]string{{"--without", "1"}, {"--without", "1", "--refit"}, {"--smallest-flip"}} {
		require.Contains(t, refuse(t, 1, append(args, change...)...), "the refit did not arrive at its mode")
	}
	r := gpexplain(t.Context(), args...)
	require.Equal(t, 0, r.code, r.stderr)
	warnings := decode[result.Report](t, r.stdout).Fit.Warnings
	require.NotNil(t, linearize.FindWarning(warnings, "refit-steps"))
	for _, w := range warnings {
		if linearize.WarningOf(w).Code != "remainder" { // what was understood of the network, and no warning on standard error
			require.Equal(t, 1, strings.Count(r.stderr, "gpexplain: warning: "+w.Error()+"\n"), r.stderr)
		}
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

// Without the rows of --smallest-flip the class is another, as --without says too, and with
// any one of them put back it is not.
func TestExplainSmallestFlip(t *testing.T) {
	text := succeed(t, small("explain", "--json", "--index", "6", "--smallest-flip")...)
	requireSchema(t, "explain", text)
	got := decode[result.Report](t, text)
	flip := got.SmallestFlip
	require.True(t, flip.Found)
	require.True(t, flip.Confirmed)
	require.Equal(t, len(flip.Rows), flip.Left)
	require.Less(t, float64(got.Prediction.Mean[0])*float64(flip.Mean[0]), 0.)
	rows := strings.Split(strings.Trim(fmt.Sprint(flip.Rows), "[]"), " ")
	for out := range min(len(rows), 3) {
		left := append(append([]string{}, rows[:out]...), rows[out+1:]...)
		if len(left) == 0 {
			continue
		}
		put := decode[result.Report](t, succeed(t, small("explain", "--json", "--index", "6", "--without", strings.Join(left, ","))...))
		require.Greater(t, float64(got.Prediction.Mean[0])*float64(put.Without.Mean[0]), 0., "row %s is not needed", rows[out])
	}
	same := decode[result.Report](t, succeed(t, small("explain", "--json", "--index", "6", "--without", strings.Join(rows, ","))...))
	require.InDelta(t, float64(same.Without.Mean[0]), float64(flip.Mean[0]), 1e-6)
	require.Equal(t, same.Without.Class, flip.Class)

	page := filepath.Join(t.TempDir(), "page.html")
	words := strings.Join(strings.Fields(succeed(t, small("explain", "--index", "6", "--smallest-flip", "--html", page)...)), " ")
	for _, say := range []string{"the smallest set found whose removal changes the class,", "A fit from scratch without them has that class too.", "a smaller set may exist."} {
		require.Contains(t, words, say)
		require.Contains(t, strings.ReplaceAll(read(t, page), "\u00a0", " "), say)
	}
	kept := decode[result.Report](t, succeed(t, small("explain", "--json", "--quiet", "--method", "kept", "--index", "6", "--smallest-flip")...))
	require.Equal(t, flip.Rows, kept.SmallestFlip.Rows)
	require.False(t, kept.SmallestFlip.Confirmed)
}

// Each of several rows has its own search, and where none is found the report says how far
// it went.
func TestExplainNoFlip(t *testing.T) {
	args := small("explain", "--all", "--smallest-flip", "--flip-most", "1", "--flip-tries", "3")
	found := map[bool]int{}
	for line := range strings.Lines(succeed(t, append(args, "--json")...)) {
		requireSchema(t, "explain", line)
		flip := decode[result.Report](t, line).SmallestFlip
		found[flip.Found]++
		if !flip.Found {
			require.Empty(t, flip.Rows)
			require.Nil(t, flip.Mean)
			require.Equal(t, 1, flip.Left)
			require.LessOrEqual(t, flip.Tried, 3)
			require.Less(t, float64(flip.Margin[1]), float64(flip.Margin[0]))
		}
	}
	require.Positive(t, found[false])
	words := strings.Join(strings.Fields(succeed(t, args...)), " ")
	require.Contains(t, words, "No set of training examples was found without which the class is another: without 1 example chosen greedily f is")

	ref := openReference(t, "snelson")
	require.Contains(t, gpexplain(t.Context(), append([]string{"explain", "--smallest-flip"}, ref.args...)...).stderr, "--smallest-flip looks for another class, but")
	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--smallest-flip and --without exclude each other", []string{"--smallest-flip", "--without", "4"}},
		{2, "--flip-most is for --smallest-flip", []string{"--flip-most", "4"}},
		{2, "--flip-tries 0 must be at least 1", []string{"--smallest-flip", "--flip-tries", "0"}},
		{1, "--flip-most 60: there are 60 training rows", []string{"--smallest-flip", "--flip-most", "60"}},
		{1, "give --method exact or kept", []string{"--smallest-flip", "--method", "nystrom", "--inducing", "20"}},
	} {
		require.Contains(t, refuse(t, test.code, small("explain", test.args...)...), test.want)
	}
}

// Every term has an error bar whose square is what the example takes off the variance, and
// --by-layer splits terms and sum without changing them.
func TestExplainByLayer(t *testing.T) {
	text := succeed(t, small("explain", "--json", "--by-layer", "--top", "1000")...)
	requireSchema(t, "explain", text)
	got := decode[result.Report](t, text)
	plain := decode[result.Report](t, succeed(t, small("explain", "--json", "--top", "1000")...))
	for k, o := range got.Outputs {
		require.Nil(t, plain.Outputs[k].Layers)
		require.Greater(t, len(o.Layers), 1)
		names, total := map[string]bool{}, 0.0
		parts := make([]float64, len(o.Layers))
		for i, c := range o.Contributions {
			require.Equal(t, plain.Outputs[k].Contributions[i].Value, c.Value)
			sum := 0.0
			for g, v := range c.Layers {
				sum += float64(v)
				parts[g] += float64(v)
			}
			require.InDelta(t, float64(c.Value), sum, 1e-8)
			sd := float64(*c.SD)
			require.InEpsilon(t, float64(*c.VarianceReduction), sd*sd, 1e-12)
			require.Less(t, float64(*c.VarianceReduction), math.Inf(1))
			require.Equal(t, math.Abs(float64(c.Value)) > 2*sd, *c.Distinguishable)
		}
		for g, l := range o.Layers {
			names[l.Name] = true
			require.InDelta(t, float64(l.Sum), parts[g], 1e-8)
			total += float64(l.Sum)
		}
		require.Len(t, names, len(o.Layers))
		require.InDelta(t, float64(o.ContributionSum), total, 1e-8)
	}

	page := filepath.Join(t.TempDir(), "page.html")
	said := succeed(t, small("explain", "--by-layer", "--html", page)...)
	shown := testref.Must(os.ReadFile(page))(t)
	for _, l := range got.Outputs[0].Layers {
		require.Contains(t, said, "\n  "+l.Name+" ")
		require.Contains(t, string(shown), `<th scope="row">`+l.Name+`</th>`)
	}
	flat := strings.Join(strings.Fields(said), " ")
	require.Contains(t, flat, "± sd, in the unit of f: how much the term would vary had the example's label been drawn anew")
	require.Contains(t, flat, "Each column adds up to the sum over all examples")
	require.Contains(t, string(shown), "* the term is more than two of these from 0.")
	for line := range strings.Lines(said) {
		require.LessOrEqual(t, len([]rune(line)), 81)
	}

	// Raw terms are split too, and have no error bars in the text, which are those of values.
	raw := succeed(t, small("explain", "--by-layer", "--terms", "raw")...)
	require.NotContains(t, raw, "± sd")
	require.Contains(t, raw, "\n  layer ")
	kept := decode[result.Report](t, succeed(t, small("explain", "--json", "--by-layer", "--method", "kept")...))
	require.InDelta(t, float64(got.Outputs[0].Layers[0].Sum), float64(kept.Outputs[0].Layers[0].Sum), 1e-4)
}

// A method without all rows is refused before the prediction is explained.
func TestExplainByLayerIsRefused(t *testing.T) {
	for _, method := range []string{"nystrom", "subset"} {
		require.Contains(t, refuse(t, 1, small("explain", "--by-layer", "--method", method, "--inducing", "20")...),
			"--by-layer needs a posterior of all training rows, which --method "+method+" is not; give --method exact or kept")
	}
}

// Every output of explain says what a score is, its unit and its sign; the table has the
// error bars.
func TestExplainSaysWhatScoresAre(t *testing.T) {
	rows, _ := trained(t)
	table := filepath.Join(t.TempDir(), "terms.csv")
	text := succeed(t, small("explain", "--json", "--by-layer", "--without", rows[0], "--csv", table)...)
	requireSchema(t, "explain", text)
	r := decode[result.Report](t, text)
	for _, score := range []string{"value", "raw", "removal", "similarity", "sd", "variance_reduction", "layers", "without"} {
		require.NotEmpty(t, r.Meanings[score], score)
	}
	require.Contains(t, r.Meanings["value"], "log-odds of 9 against 4, in nats; a positive one raises the output")
	require.Contains(t, r.Meanings["without"], "log-odds of 9 against 4, in nats; less prediction.mean it is what the change does, positive where the output rises")
	require.NotContains(t, r.Meanings, "networks")
	// The contributions have no score without a meaning.
	var raw struct {
		Outputs []struct{ Contributions []map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &raw))
	for name := range raw.Outputs[0].Contributions[0] {
		switch name {
		case "index", "label", "pseudo_target", "alpha", "distinguishable": // no scores
		default:
			require.Contains(t, r.Meanings, name)
		}
	}
	lines := testref.Must(csv.NewReader(strings.NewReader(read(t, table))).ReadAll())(t)
	for i, line := range lines[1:] {
		x := r.Outputs[0].Contributions[i]
		sd := testref.Must(strconv.ParseFloat(line[12], 64))(t)
		require.Equal(t, float64(*x.SD), sd)
		require.Equal(t, []string{"", "", fmt.Sprint(*x.Distinguishable)}, line[13:])
	}

	flip := decode[result.Report](t, succeed(t, small("explain", "--json", "--flip", rows[0]+"=9")...))
	require.NotEmpty(t, flip.Meanings["flip"])
	smallest := decode[result.Report](t, succeed(t, small("explain", "--json", "--smallest-flip", "--flip-tries", "3")...))
	require.NotEmpty(t, smallest.Meanings["smallest_flip"])

	page := filepath.Join(t.TempDir(), "page.html")
	shown := strings.Join(strings.Fields(succeed(t, small("explain", "--html", page)...)), " ")
	require.Contains(t, shown, "Value: what the example adds to f, in the unit of f: + speaks for 4, - for 9; removal: change of f without the example, in the same unit; similar: posterior correlation, no unit, -1 to 1.")
	written := html.UnescapeString(strings.ReplaceAll(read(t, page), "\u00a0", " "))
	require.True(t, strings.Contains(written, "Value: what the example adds to f, in the unit of f: + speaks for 4, − for 9; “without it”: change of f without the example, in the same unit; similarity: posterior correlation, no unit, −1 to 1."))
}

func TestImportances(t *testing.T) {
	ref := openReference(t, "two-moons")
	text := ref.run(t, "importances", "--json", "--top", "10")
	requireSchema(t, "importances", text)
	r := decode[result.ImportanceReport](t, text)
	require.Len(t, r.Importances, 10)
	require.Len(t, r.Curve, ref.n, "the curve is of all N whatever --top is")
	for i, x := range r.Importances {
		require.Equal(t, r.Curve[i], x.Norm)
		// At the mode α is the residual; 1e-6 is the gap the refit may leave.
		require.InDelta(t, ref.Floats("refit_residual")[x.Index], float64(x.Alpha[0]), 1e-6)
		require.Equal(t, ref.Floats("y_train")[x.Index], float64(x.Label))
	}
	all := decode[result.ImportanceReport](t, ref.run(t, "importances", "--json", "--top", "1000"))
	require.Len(t, all.Importances, ref.n, "--top above N lists all N")
}

func TestImportancesPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	text := succeed(t, small("importances", "--top", "3", "--html", page)...)
	require.Contains(t, text, "|α|")
	html := testref.Must(os.ReadFile(page))(t)
	require.Contains(t, string(html), "</html>")
}

// --influence adds a number to the listed terms and changes none: of a regression, where it is exact, that of twice the
// precision, and the same from a file, of kept rows and in Go. Text, page and table have it too. Where there is no posterior
// of all rows, the error says what to type.
func TestExplainInfluence(t *testing.T) {
	ref := openReference(t, "snelson")
	text := ref.run(t, "explain", "--json", "--influence", "--top", "200")
	requireSchema(t, "explain", text)
	with, without := decode[result.Report](t, text), decode[result.Report](t, ref.run(t, "explain", "--json", "--top", "200"))
	require.Contains(t, with.Meanings, "influence")
	twice := decode[result.Report](t, ref.run(t, "explain", "--json", "--top", "200", "--prior-precision", strconv.FormatFloat(2*float64(with.Fit.PriorPrecision), 'g', -1, 64)))
	removal := map[result.Index]float64{}
	for _, x := range twice.Outputs[0].Contributions {
		removal[x.Index] = float64(x.Removal)
	}
	require.Len(t, removal, ref.n)
	var a, b []float64
	for k, x := range with.Outputs[0].Contributions {
		require.NotNil(t, x.Influence)
		a, b = append(a, float64(*x.Influence)), append(b, -2*removal[x.Index])
		x.Influence = nil
		require.Equal(t, without.Outputs[0].Contributions[k], x)
	}
	// They differ by the factor 1 + own leverage at half weights alone.
	for k := range a {
		ratio := b[k] / a[k]
		require.True(t, a[k] == 0 || ratio >= 1-1e-6 && ratio <= 2, ratio)
	}
	kept := decode[result.Report](t, ref.run(t, "explain", "--json", "--influence", "--top", "200", "--method", "kept", "--within", "1e-6"))
	for _, x := range kept.Outputs[0].Contributions {
		at := slices.IndexFunc(with.Outputs[0].Contributions, func(y result.Contribution) bool { return y.Index == x.Index })
		require.InDelta(t, a[at], float64(*x.Influence), 1e-4*slices.Max(a))
	}
	table, page := filepath.Join(t.TempDir(), "a.csv"), filepath.Join(t.TempDir(), "a.html")
	shown := ref.run(t, "explain", "--influence", "--top", "3", "--csv", table, "--html", page)
	require.Regexp(t, `removal +influence +similar`, shown)
	lines := testref.Must(csv.NewReader(strings.NewReader(read(t, table))).ReadAll())(t)
	at := slices.Index(lines[0], "influence")
	require.Equal(t, strconv.FormatFloat(a[0], 'g', -1, 64), lines[1][at])
	require.Contains(t, read(t, page), "<span>influence ")
	require.Contains(t, read(t, page), "go by it for many examples together")
	require.NotContains(t, ref.run(t, "explain", "--top", "3", "--html", page), "influence")
	require.NotContains(t, read(t, page), "<span>influence ")
	require.Contains(t, refuse(t, 1, small("explain", "--influence", "--method", "nystrom", "--inducing", "20")...), "give --method exact or kept")
	require.Contains(t, refuse(t, 2, "explain", "--influence", "--model", "a.onnx,b.onnx"), "--influence is for one network")
}
