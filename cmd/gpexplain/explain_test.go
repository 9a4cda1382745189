package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
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
		r := decode[result.Report](t, succeed(t, small("explain", "--model", model, "--json", "--classes", classes, "--index", "24", "--quiet")...))
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
	r = decode[result.Report](t, ref.run(t, "explain", "--json", "--classes", "3,2,1,0", "--quiet", "--contrast", "3,1", "--top", "4"))
	require.Equal(t, &result.Contrasted{Plus: 0, Minus: 2}, r.Outputs[4].Contrast)

	text = ref.run(t, "explain", "--contrast", "3,1")
	require.Contains(t, text, "Why 3 rather than 1")
}

// The page and the picture say what the text says, and are complete files.
func TestExplainPages(t *testing.T) {
	dir := t.TempDir()
	html, png := filepath.Join(dir, "für die Kundin.html"), filepath.Join(dir, "日本.png")
	require.Equal(t, succeed(t, small("explain")...), succeed(t, small("explain", "--html", html, "--png", png)...))
	page := testref.Must(os.ReadFile(html))(t)
	require.Contains(t, string(page), "</html>")
	require.Contains(t, string(page), "--png", "the command is recorded")
	picture := testref.Must(os.ReadFile(png))(t)
	require.Equal(t, "\x89PNG", string(picture[:4]))
	require.Len(t, listing(t, dir), 2)
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
