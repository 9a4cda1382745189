package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// A weightsTable is a table of two features and a class, of which the later ones are rarer.
type weightsTable struct {
	dir   string
	x     [][2]float64
	class []int
}

// newWeightsTable draws n rows of k classes.
func newWeightsTable(t *testing.T, n, k int) *weightsTable {
	rng, out := rand.New(rand.NewPCG(7, uint64(k))), &weightsTable{dir: t.TempDir()}
	for range n {
		y := min(rng.IntN(k), rng.IntN(k))
		out.x = append(out.x, [2]float64{rng.NormFloat64() + 1.2*float64(y), rng.NormFloat64() - .8*float64(y%2)})
		out.class = append(out.class, y)
	}
	return out
}

// write writes the table with each row as often as times says, 1 for nil, and returns its path.
func (w *weightsTable) write(t *testing.T, name string, times func(i int) int) string {
	var b strings.Builder
	b.WriteString("a,b,class\n")
	for i, x := range w.x {
		n := 1
		if times != nil {
			n = times(i)
		}
		for range n {
			fmt.Fprintf(&b, "%v,%v,%d\n", x[0], x[1], w.class[i])
		}
	}
	path := filepath.Join(w.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// answered is what tests read of predict --json.
type answered struct {
	Mean, Covariance, Probability any
	Label                         json.Number
	NLL                           float64
	Fit                           struct {
		LogEvidence          float64        `json:"log_evidence"`
		GradientNorm         float64        `json:"gradient_norm"`
		StatedPrecision      float64        `json:"stated_precision"`
		PriorPrecisionOrigin string         `json:"prior_precision_origin"`
		Loss                 map[string]any `json:"loss"`
		Warnings             []struct{ Code string }
		Match                struct{ Remainder float64 }
		Calibration          struct {
			Rows int
			LOO  struct{ NLL float64 }
		}
	}
}

// predictedBy returns the rows of predict --json, and its summary.
func predictedBy(t *testing.T, args ...string) (rows []answered, last answered) {
	t.Helper()
	for line := range strings.Lines(succeed(t, append([]string{"predict", "--json", "--quiet", "--standardize", "no"}, args...)...)) {
		rows = append(rows, decode[answered](t, line))
	}
	return rows[:len(rows)-1], rows[len(rows)-1]
}

// flat lists all numbers of a decoded value.
func flat(v any) (out []float64) {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case []any:
		for _, of := range v {
			out = append(out, flat(of)...)
		}
	}
	return out
}

// requireSameAnswers compares means, covariances and evidence of predictions of the same rows.
func requireSameAnswers(t *testing.T, want, got []answered, a, b answered) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.InDeltaSlice(t, flat(want[i].Mean), flat(got[i].Mean), 1e-9)
		require.InDeltaSlice(t, flat(want[i].Covariance), flat(got[i].Covariance), 1e-9)
	}
	require.InEpsilon(t, a.Fit.LogEvidence, b.Fit.LogEvidence, 1e-9)
}

// TestClassWeightsRepeatRows checks that class weights of 2 and 3 give the posterior of a table with the rows of these
// classes twice and three times (E23), for two logits, for one, and for three classes.
func TestClassWeightsRepeatRows(t *testing.T) {
	for _, c := range []struct {
		classes       int
		arch, weights string
		times         []int
		likelihood    string
	}{
		{2, "mlp:3-1", "1=3", []int{1, 3}, "bernoulli"},
		{2, "mlp:3-2", "0=2,1=3", []int{2, 3}, "categorical"},
		{3, "mlp:3-3", "2=3, 1=2", []int{1, 2, 3}, "categorical"},
	} {
		w := newWeightsTable(t, 60, c.classes)
		model := filepath.Join(w.dir, "net.onnx")
		table := w.write(t, "train.csv", nil)
		repeated := w.write(t, "repeated.csv", func(i int) int { return c.times[w.class[i]] })
		succeed(t, "train", "--quiet", "--data", table, "--arch", c.arch, "--out", model, "--lbfgs", "20", "--epochs", "2", "--standardize", "no", "--likelihood", c.likelihood)
		for _, method := range [][]string{{"--at", "3", "--refit"}, {"--at", "3"}} {
			common := append([]string{"--model", model, "--test-data", table, "--calibrate", "none"}, method...)
			want, a := predictedBy(t, append(common, "--data", repeated)...)
			got, b := predictedBy(t, append(common, "--data", table, "--class-weights", c.weights)...)
			requireSameAnswers(t, want, got, a, b)
		}
	}
}

// TestClassWeightsOfTraining checks that a network that was trained with class weights is an optimum of what its posterior
// is fitted to, that its file and a posterior's say so, and that probabilities are calibrated to the shares of the classes.
func TestClassWeightsOfTraining(t *testing.T) {
	w := newWeightsTable(t, 400, 2)
	model, saved := filepath.Join(w.dir, "net.onnx"), filepath.Join(w.dir, "a.gp")
	table := w.write(t, "train.csv", nil)
	succeed(t, "train", "--quiet", "--data", table, "--arch", "mlp:4-2", "--activation", "tanh", "--out", model, "--standardize", "no", "--class-weights", "balanced", "--likelihood", "categorical")
	common := []string{"--model", model, "--data", table, "--test-data", table}
	rows, got := predictedBy(t, common...)
	require.Less(t, got.Fit.GradientNorm, 1e-2)
	require.Empty(t, got.Fit.Warnings)
	require.Less(t, got.Fit.Match.Remainder, 1e-3)
	n := [2]float64{}
	for _, y := range w.class {
		n[y]++
	}
	require.InDeltaSlice(t, []float64{200 / n[0], 200 / n[1]}, flat(got.Fit.Loss["class_weights"]), 1e-12)
	require.Equal(t, "from the model's metadata", got.Fit.Loss["class_weights_origin"])
	require.Regexp(t, `loss: class\s+weights \S+,\s+\S+\s+\(from\s+the\s+model's\s+metadata\);`, succeed(t, append([]string{"explain", "--quiet", "--standardize", "no"}, common...)...))
	mean := 0.
	for _, r := range rows {
		mean += flat(r.Probability)[1] / float64(len(rows))
	}
	require.InDelta(t, n[1]/400, mean, .02) // the network's own are .09 above

	succeed(t, append([]string{"fit", "--quiet", "--bundle", "--standardize", "no", "--out", saved}, common...)...)
	input := w.write(t, "rows.csv", nil)
	rows, _ = predictedBy(t, append(common, "--input", input)...)
	require.NoError(t, os.Remove(model))
	require.NoError(t, os.Remove(table))
	again, b := predictedBy(t, "--posterior", saved, "--input", input)
	require.Equal(t, rows, again)
	require.Equal(t, got.Fit.Loss, b.Fit.Loss)
	require.Contains(t, refuse(t, 1, "predict", "--posterior", saved, "--class-weights", "1=3"), "--class-weights 1=3 is not what it was fitted with, which says ")
}

// TestClassWeightsAndDecay checks by what PyTorch's mean divides: by Σ w with weight=, and by N with pos_weight=.
func TestClassWeightsAndDecay(t *testing.T) {
	w := newWeightsTable(t, 50, 2)
	ones := 0
	for _, y := range w.class {
		ones += y
	}
	table, model := w.write(t, "train.csv", nil), filepath.Join(w.dir, "net.onnx")
	for likelihood, c := range map[string]struct {
		arch string
		sum  float64
	}{"categorical": {"mlp:2-2", 50 + 2*float64(ones)}, "bernoulli": {"mlp:2-1", 50}} {
		succeed(t, "train", "--quiet", "--data", table, "--arch", c.arch, "--out", model, "--lbfgs", "2", "--epochs", "1", "--standardize", "no", "--likelihood", likelihood)
		_, got := predictedBy(t, "--model", model, "--data", table, "--test-data", table, "--class-weights", "1=3", "--weight-decay", "0.01")
		require.InEpsilon(t, .01*c.sum, got.Fit.StatedPrecision, 1e-12, likelihood)
	}
}

// TestLabelSmoothing checks that smoothed labels are the rows of each label as often as its share says: ε = ½ of two classes is
// each row three times as it is and once with the other label, which is four times the row.
func TestLabelSmoothing(t *testing.T) {
	for likelihood, arch := range map[string]string{"bernoulli": "mlp:3-1", "categorical": "mlp:3-2"} {
		w := newWeightsTable(t, 40, 2)
		model := filepath.Join(w.dir, "net.onnx")
		table := w.write(t, "train.csv", nil)
		succeed(t, "train", "--quiet", "--data", table, "--arch", arch, "--out", model, "--lbfgs", "20", "--epochs", "2", "--standardize", "no", "--likelihood", likelihood)
		shares := &weightsTable{dir: w.dir}
		for i, x := range w.x {
			y := w.class[i]
			shares.x, shares.class = append(shares.x, x, x, x, x), append(shares.class, y, y, y, 1-y)
		}
		four := w.write(t, "four.csv", func(int) int { return 4 })
		common := []string{"--model", model, "--test-data", table, "--calibrate", "none", "--at", "3", "--refit"}
		want, a := predictedBy(t, append(common, "--data", shares.write(t, "shares.csv", nil))...)
		got, b := predictedBy(t, append(common, "--data", four, "--label-smoothing", "0.5")...)
		requireSameAnswers(t, want, got, a, b)
		require.Equal(t, .5, b.Fit.Loss["label_smoothing"])
	}
}

// TestLabelSmoothingOfTraining checks that a network that was trained with label smoothing, and with weights of classes
// too, is an optimum of what its posterior is fitted to.
func TestLabelSmoothingOfTraining(t *testing.T) {
	for _, weights := range []string{"", "1=2,2=3"} {
		w := newWeightsTable(t, 300, 3)
		model, saved := filepath.Join(w.dir, "net.onnx"), filepath.Join(w.dir, "a.gp")
		table := w.write(t, "train.csv", nil)
		train := []string{"train", "--quiet", "--data", table, "--arch", "mlp:4-3", "--activation", "tanh", "--out", model, "--standardize", "no", "--label-smoothing", "0.2"}
		if weights != "" {
			train = append(train, "--class-weights", weights)
		}
		succeed(t, train...)
		common := []string{"--model", model, "--data", table, "--input", table}
		rows, got := predictedBy(t, common...)
		require.Less(t, got.Fit.GradientNorm, 1e-2)
		require.Empty(t, got.Fit.Warnings)
		require.Less(t, got.Fit.Match.Remainder, 1e-3)
		require.Equal(t, .2, got.Fit.Loss["label_smoothing"])
		succeed(t, append([]string{"fit", "--quiet", "--bundle", "--standardize", "no", "--out", saved}, common[:4]...)...)
		again, _ := predictedBy(t, "--posterior", saved, "--input", table, "--label-smoothing", ".2")
		require.Equal(t, rows, again)

		// Another label of a row comes with its own weight and shares.
		changed := *w
		changed.class = slices.Clone(w.class)
		changed.class[0] = (w.class[0] + 1) % 3
		at := []string{"--model", model, "--input", table, "--at", "3", "--refit", "--calibrate", "none", "--label-smoothing", "0.2"}
		if weights != "" {
			at = append(at, "--class-weights", weights)
		}
		want, _ := predictedBy(t, append(at, "--data", changed.write(t, "changed.csv", nil))...)
		flip := decode[struct {
			Changed struct{ Mean []float64 }
		}](t, succeed(t, append([]string{"explain", "--json", "--quiet", "--standardize", "no", "--data", table, "--index", "0", "--test-data", table, "--flip", fmt.Sprintf("0=%d", changed.class[0])}, slices.Concat(at[:2], at[4:])...)...))
		require.InDeltaSlice(t, flat(want[0].Mean), flip.Changed.Mean, 1e-8)
	}
}

// TestRowWeights checks that a row of weight 2 counts as two equal rows and one of weight 0 as none (E23), of classes, counts
// and real numbers, also with class weights, and that the file of a posterior has the weights.
func TestRowWeights(t *testing.T) {
	for likelihood, c := range map[string]struct{ arch, weights string }{
		"bernoulli": {"mlp:3-1", "1=2"}, "categorical": {"mlp:3-2", ""}, "gaussian": {"mlp:3-1", ""}, "poisson": {"mlp:3-1", ""},
	} {
		w := newWeightsTable(t, 40, 2)
		model, saved := filepath.Join(w.dir, "net.onnx"), filepath.Join(w.dir, "a.gp")
		weight := func(i int) int { return i % 4 }
		plain, repeated, kept := w.write(t, "plain.csv", nil), w.write(t, "repeated.csv", weight), w.write(t, "kept.csv", func(i int) int { return min(1, weight(i)) })
		weighted := func(rows, name string, weight func(i int) int) string {
			lines := strings.Split(strings.TrimSpace(read(t, rows)), "\n")
			for i, line := range lines {
				fields := strings.Split(line, ",")
				of := "w"
				if i > 0 {
					of = fmt.Sprint(weight(i - 1))
				}
				lines[i] = strings.Join(slices.Insert(fields, 1, of), ",")
			}
			path := filepath.Join(w.dir, name)
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
			return path
		}
		table, left := weighted(plain, "table.csv", weight), weighted(plain, "left.csv", func(i int) int { return min(1, weight(i)) })
		succeed(t, "train", "--quiet", "--data", plain, "--arch", c.arch, "--out", model, "--lbfgs", "20", "--epochs", "2", "--standardize", "no", "--likelihood", likelihood)
		common := []string{"--model", model, "--input", plain, "--at", "3", "--likelihood", likelihood}
		if c.weights != "" {
			common = append(common, "--class-weights", c.weights)
		}
		if likelihood == "gaussian" {
			common = append(common, "--noise-variance", ".5") // else by leave-one-out, which leaves a copy of a repeated row in
		}
		with := func(more ...string) []string { return append(slices.Clone(common), more...) }
		all := []string{"--calibrate", "none", "--refit"}
		want, a := predictedBy(t, with(append(all, "--data", repeated)...)...)
		first, b := predictedBy(t, with(append(all, "--data", table, "--row-weights", "w")...)...)
		requireSameAnswers(t, want, first, a, b)
		require.Equal(t, "w", b.Fit.Loss["row_weights"])

		if c.weights != "" { // another label of a row comes with the weight of its class, times the row's own
			changed := *w
			changed.class = slices.Clone(w.class)
			changed.class[7] = 1 - w.class[7]
			other := weighted(changed.write(t, "changed.csv", nil), "other.csv", weight)
			asked := append([]string{"--model", model, "--class-weights", c.weights, "--row-weights", "w", "--prior-precision", "1", "--test-data", table, "--index", "2"}, all...)
			flip := decode[result.Report](t, succeed(t, slices.Concat([]string{"explain", "--json", "--quiet", "--standardize", "no", "--data", table, "--flip", fmt.Sprintf("7=%d", changed.class[7])}, asked)...))
			rows, _ := predictedBy(t, append(asked, "--data", other)...)
			require.InDeltaSlice(t, flat(rows[0].Mean), []float64{float64(flip.Flip.Mean[0])}, 1e-8)
		}

		// Rows of weight 0 are not there for the calibration either.
		want, a = predictedBy(t, with("--data", kept)...)
		got, b := predictedBy(t, with("--data", left, "--row-weights", "w")...)
		requireSameAnswers(t, want, got, a, b)
		for i := range want {
			require.InDeltaSlice(t, flat(want[i].Probability), flat(got[i].Probability), 1e-6)
		}
		require.InEpsilon(t, a.Fit.Calibration.LOO.NLL, b.Fit.Calibration.LOO.NLL, 1e-6)
		require.Equal(t, a.Fit.Calibration.Rows, b.Fit.Calibration.Rows)

		fit := []string{"fit", "--quiet", "--standardize", "no", "--out", saved, "--bundle", "--data", table, "--row-weights", "w"}
		succeed(t, append(fit, slices.DeleteFunc(with(all...), func(s string) bool { return s == "--input" || s == plain })...)...)
		require.NoError(t, os.Remove(model))
		require.NoError(t, os.Remove(table))
		again, b := predictedBy(t, "--posterior", saved, "--input", plain)
		require.Equal(t, first, again)
		require.Equal(t, "w", b.Fit.Loss["row_weights"])
	}
}

// TestSoftLabels checks that target columns with shares of 1 are soft labels: shares in quarters are four rows with labels as
// often, one row of shares repeated four times; the NLL is the cross entropy; a network that was trained on them is an optimum
// of what is fitted, and a bundle has them.
func TestSoftLabels(t *testing.T) {
	for outputs, likelihood := range map[int]string{1: "bernoulli", 3: "categorical"} {
		k := max(2, outputs)
		rng, w := rand.New(rand.NewPCG(5, uint64(k))), newWeightsTable(t, 60, k)
		soft := "a,b"
		for c := range k {
			soft += fmt.Sprintf(",k%d", c)
		}
		soft, four := soft+"\n", soft+"\n"
		hard := &weightsTable{dir: w.dir}
		var shares [][]float64
		for i, x := range w.x {
			q := make([]float64, k)
			for j := range 4 {
				y := w.class[i]
				if j > 1 {
					y = rng.IntN(k)
				}
				q[y] += .25
				hard.x, hard.class = append(hard.x, x), append(hard.class, y)
			}
			shares = append(shares, q)
			line := fmt.Sprintf("%v,%v", x[0], x[1])
			for _, v := range q {
				line += fmt.Sprintf(",%v", v)
			}
			soft, four = soft+line+"\n", four+strings.Repeat(line+"\n", 4)
		}
		file := func(name, text string) string { return write(t, filepath.Join(w.dir, name), []byte(text)) }
		table, target := file("soft.csv", soft), "k0,k1,k2"[:3*k-1]
		model, saved := filepath.Join(w.dir, "net.onnx"), filepath.Join(w.dir, "a.gp")
		input := file("input.csv", "a,b\n.1,.2\n-1,0\n2,1\n")
		succeed(t, "train", "--quiet", "--data", table, "--target", target, "--likelihood", likelihood, "--arch", fmt.Sprintf("mlp:4-%d", outputs), "--activation", "tanh", "--out", model, "--standardize", "no")
		at := []string{"--model", model, "--input", input, "--at", "3", "--refit", "--calibrate", "none", "--likelihood", likelihood}
		want, a := predictedBy(t, append(at, "--data", hard.write(t, "hard.csv", nil))...)
		got, b := predictedBy(t, append(at, "--data", file("four.csv", four), "--target", target)...)
		requireSameAnswers(t, want, got, a, b)

		common := []string{"--model", model, "--data", table, "--target", target}
		rows, b := predictedBy(t, append(common, "--test-data", table)...)
		require.Less(t, b.Fit.GradientNorm, 1e-2)
		require.Empty(t, b.Fit.Warnings)
		require.Less(t, b.Fit.Match.Remainder, 1e-3)
		nll := 0.
		for i, r := range rows {
			for c, p := range flat(r.Probability) {
				nll -= shares[i][c] * math.Log(p) / float64(len(rows))
			}
		}
		require.InEpsilon(t, nll, b.NLL, 1e-12)

		rows, _ = predictedBy(t, append(common, "--input", input)...)
		succeed(t, append([]string{"fit", "--quiet", "--bundle", "--standardize", "no", "--out", saved}, common...)...)
		again, _ := predictedBy(t, "--posterior", saved, "--input", input)
		require.Equal(t, rows, again)
	}
}

// Class weights that cannot be are refused in one line.
func TestClassWeightsRefused(t *testing.T) {
	for _, text := range []string{"1", "1=0", "1=-2", "1=x", "=2", "1=2,1=3", "1=NaN", "1=Inf", "1=2,,0=1"} {
		require.Contains(t, refuse(t, 2, small("predict", "--class-weights", text)...), "--class-weights "+text)
	}
	for _, text := range []string{"-0.1", "1", "NaN"} {
		require.Contains(t, refuse(t, 2, small("predict", "--label-smoothing="+text)...), "--label-smoothing "+text)
	}
	require.Contains(t, refuse(t, 1, small("predict", "--class-weights", "5=2")...), "--class-weights 5=2: 5 is not one of the classes 4,9")
	require.Contains(t, refuse(t, 2, small("predict", "--class-weights", "4=2", "--likelihood", "gaussian")...), "is for labels")
	corpus := filepath.Join(repository, "testdata", "corpus", "weight-decay")
	require.Contains(t, refuse(t, 1, "predict", "--model", filepath.Join(corpus, "model.onnx"), "--data", filepath.Join(corpus, "train.csv"), "--class-weights", "balanced"), "is for labels")
}
