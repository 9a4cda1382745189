package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// labelNames are the labels of a labelTable, of which a row has any number.
var labelNames = []string{"red", "round", "sweet"}

// A labelTable has rows with two features a, b and three labels.
type labelTable []struct {
	x      [2]float64
	labels [3]float64
}

func newLabelTable(n int, seed uint64) labelTable {
	rng, rows := rand.New(rand.NewPCG(11, seed)), make(labelTable, n)
	for i := range rows {
		r := &rows[i]
		r.x = [2]float64{rng.NormFloat64(), rng.NormFloat64()}
		for j, f := range []float64{2 * r.x[0], r.x[1] - 1, .5 - r.x[0] - r.x[1]} {
			if f > rng.NormFloat64() {
				r.labels[j] = 1
			}
		}
	}
	return rows
}

// write writes the table with some of the labels and weights w of 1, 2, 3, 1, …, and returns its path. Where times says how
// often each row is there, the weights are 1.
func (rows labelTable) write(t *testing.T, labels []string, times func(i int) int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("a,b,w," + strings.Join(labels, ",") + "\n")
	for i, r := range rows {
		n, w := 1, 1+i%3
		if times != nil {
			n, w = times(i), 1
		}
		line := fmt.Sprintf("%v,%v,%d", r.x[0], r.x[1], w)
		for j, name := range labelNames {
			if slices.Contains(labels, name) {
				line += fmt.Sprintf(",%v", r.labels[j])
			}
		}
		b.WriteString(strings.Repeat(line+"\n", n))
	}
	return write(t, filepath.Join(t.TempDir(), "labels.csv"), []byte(b.String()))
}

// labelNetwork trains a network on labels of a table, by the weights w of its rows and other flags, and returns its path.
func labelNetwork(t *testing.T, table, labels, arch string, flags ...string) string {
	t.Helper()
	model := filepath.Join(t.TempDir(), "labels.onnx")
	succeed(t, append([]string{"train", "--quiet", "--data", table, "--row-weights", "w", "--target", labels, "--arch", arch, "--activation", "tanh", "--standardize", "no",
		"--prior-precision", "0.5", "--epochs", "20", "--lbfgs", "500", "--out", model}, flags...)...)
	return model
}

// TestLabelsAreSeparateProblems checks that a network without a hidden layer, whose outputs have no parameter in common, is
// to its labels what a network of one output is to each, also with weights of the rows that have a label.
func TestLabelsAreSeparateProblems(t *testing.T) {
	train, test := newLabelTable(50, 1), newLabelTable(12, 2)
	answers := func(labels []string, flags ...string) ([]answered, answered) {
		table, target := train.write(t, labels, nil), strings.Join(labels, ",")
		return predictedBy(t, append(flags, "--model", labelNetwork(t, table, target, fmt.Sprintf("mlp:%d", len(labels)), flags...), "--data", table, "--test-data", test.write(t, labels, nil),
			"--row-weights", "w", "--target", target, "--refit", "--prior-precision", "0.5", "--calibrate", "none")...)
	}
	for _, weights := range [][]float64{{1, 1, 1}, {2, 1, .3}} {
		rows, all := answers(labelNames, "--class-weights", fmt.Sprintf("red=%v,round=%v,sweet=%v", weights[0], weights[1], weights[2]))
		require.Empty(t, all.Fit.Warnings)
		require.Less(t, all.Fit.GradientNorm, 1e-3)
		evidence, nll := 0., 0.
		for j, name := range labelNames {
			one, last := answers([]string{name}, "--class-weights", fmt.Sprintf("1=%v", weights[j]))
			for i := range rows {
				require.InDelta(t, flat(one[i].Probability)[1], flat(rows[i].Probability)[j], 1e-9)
				require.InDelta(t, flat(one[i].Covariance)[0], flat(rows[i].Covariance)[4*j], 1e-9)
			}
			evidence, nll = evidence+last.Fit.LogEvidence, nll+last.NLL
		}
		require.InEpsilon(t, evidence, all.Fit.LogEvidence, 1e-9)
		require.InEpsilon(t, nll, all.NLL, 1e-9)
	}
}

// TestLabelsRepeatRows checks that weights of rows with several labels give the posterior of a table with repeated rows, and
// by either exact method; the network is at an optimum of its loss.
func TestLabelsRepeatRows(t *testing.T) {
	rows, test := newLabelTable(40, 3), newLabelTable(8, 4).write(t, labelNames, nil)
	table, repeated := rows.write(t, labelNames, nil), rows.write(t, labelNames, func(i int) int { return 1 + i%3 })
	target := strings.Join(labelNames, ",")
	model := labelNetwork(t, table, target, "mlp:4-3")
	for _, method := range []string{"exact", "parameters"} {
		common := []string{"--model", model, "--test-data", test, "--method", method, "--prior-precision", "0.5", "--refit"}
		want, a := predictedBy(t, append(common, "--data", repeated, "--target", target, "--likelihood", "bernoulli")...)
		got, b := predictedBy(t, append(common, "--data", table)...) // the metadata has target and weights
		requireSameAnswers(t, want, got, a, b)
		require.Less(t, b.Fit.GradientNorm, 1e-3)
		require.Empty(t, b.Fit.Warnings)
	}
}

// TestLabelWeightsAreSeen checks that a training with weights of the rows that have a label is told, with the weight, and that
// calibration corrects it; and that nothing is said where they are stated, or there were none.
func TestLabelWeightsAreSeen(t *testing.T) {
	table, test := newLabelTable(200, 10).write(t, labelNames, nil), newLabelTable(300, 11).write(t, labelNames, nil)
	model := labelNetwork(t, table, strings.Join(labelNames, ","), "mlp:3", "--class-weights", "round=6")
	common := []string{"--model", model, "--data", table, "--test-data", test}
	said := func(flags ...string) (string, *predictSummary) {
		r := gpexplain(t.Context(), append(append([]string{"predict", "--json"}, common...), flags...)...)
		require.Equal(t, 0, r.code, r.stderr)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		last := decode[predictSummary](t, lines[len(lines)-1])
		return fmt.Sprint(last.Fit.Warnings), &last
	}
	text, stated := said()
	require.Equal(t, "[]", text)
	require.InDelta(t, -math.Log(6), float64(stated.Fit.Calibration.Shift[1]), 1e-12)
	require.Less(t, float64(stated.NLL), float64(stated.MAPNLL)-.1)
	text, none := said("--class-weights", "round=1")
	require.Contains(t, text, `the network expects the label "round" for`)
	require.Regexp(t, `"round" .*, as at (5\.\d+|6(\.\d+)?) times their weight`, text)
	require.NotContains(t, text, "sweet")
	require.Less(t, float64(none.Fit.Calibration.Shift[1]), -1.5)
	require.Less(t, float64(none.NLL), float64(none.MAPNLL)-.1)
}

// TestLabelsOfSavedFile checks what is said of a row: from a saved posterior as without, in JSON, CSV and as sums.
func TestLabelsOfSavedFile(t *testing.T) {
	table, test := newLabelTable(40, 5).write(t, labelNames, nil), newLabelTable(8, 6)
	rows := test.write(t, labelNames, nil)
	model := labelNetwork(t, table, strings.Join(labelNames, ","), "mlp:4-3")
	common := []string{"--model", model, "--data", table, "--test-data", rows, "--quiet"}
	saved, csv := filepath.Join(t.TempDir(), "labels.gp"), filepath.Join(t.TempDir(), "p.csv")
	succeed(t, append([]string{"fit", "-o", saved}, common...)...)
	lines := strings.Split(strings.TrimSpace(succeed(t, append([]string{"predict", "--json", "--csv", csv}, common...)...)), "\n")
	again := strings.Split(strings.TrimSpace(succeed(t, "predict", "--json", "--quiet", "--posterior", saved)), "\n")
	sum := decode[predictSummary](t, lines[len(lines)-1])
	require.Equal(t, sum.NLL, decode[predictSummary](t, again[len(again)-1]).NLL)
	require.Equal(t, labelNames, sum.Labels)
	require.Nil(t, sum.Classes)
	nll, right := 0., 0.
	for i, text := range lines[:8] {
		requireSchema(t, "predict-row", text+"\n")
		require.Equal(t, text, again[i])
		row := decode[prediction](t, text)
		require.Equal(t, labelNames, row.Labels)
		var has []string
		for j, p := range row.Probability {
			y := test[i].labels[j]
			require.EqualValues(t, y, row.Targets[j])
			nll -= math.Log(math.Abs(1 - y - float64(p)))
			if float64(p) > .5 == (y == 1) {
				right++
			}
			if y == 1 {
				has = append(has, labelNames[j])
			}
		}
		require.Equal(t, map[bool]string{true: strings.Join(has, ", "), false: "none"}[has != nil], row.LabelName)
	}
	require.InEpsilon(t, nll/8, float64(sum.NLL), 1e-12) // of a row, the sum over its labels
	require.InDelta(t, right/24, float64(sum.Accuracy), 1e-12)
	require.Contains(t, read(t, csv), "index,label_red,label_round,label_sweet,probability_red,")

	text := succeed(t, "explain", "--json", "--quiet", "--posterior", saved, "--index", "2", "--contrast", "red,sweet")
	requireSchema(t, "explain", text)
	r := decode[result.Report](t, text)
	require.Equal(t, labelNames, r.Labels)
	require.Len(t, r.Outputs, 4) // each label, and the contrast
	for j, o := range r.Outputs[:3] {
		require.InDelta(t, float64(r.Prediction.Mean[j]), float64(o.PriorMean+o.ContributionSum+o.Remainder), 1e-9)
		for _, c := range o.Contributions {
			require.Contains(t, []float64{0, 1}, float64(c.Label))
		}
	}
	page := filepath.Join(t.TempDir(), "p.html")
	require.Contains(t, succeed(t, "explain", "--quiet", "--posterior", saved, "--index", "2", "--html", page), "log-odds of round")
	require.Contains(t, read(t, page), "What speaks for and against round")
}

// TestLabelFlip checks the prediction with other labels of training rows against a fit to a table that has them.
func TestLabelFlip(t *testing.T) {
	rows, test := newLabelTable(40, 7), newLabelTable(3, 8).write(t, labelNames, nil)
	table := rows.write(t, labelNames, nil)
	model := labelNetwork(t, table, strings.Join(labelNames, ","), "mlp:4-3")
	common := []string{"--json", "--quiet", "--model", model, "--test-data", test, "--index", "1", "--refit", "--prior-precision", "0.5", "--calibrate", "none"}
	r := decode[result.Report](t, succeed(t, append([]string{"explain", "--data", table, "--flip", "4=round,9=red"}, common...)...))
	require.Len(t, r.Flip.LabelNames, 2)
	rows[4].labels[1], rows[9].labels[0] = 1-rows[4].labels[1], 1-rows[9].labels[0]
	want, _ := predictedBy(t, append([]string{"--data", rows.write(t, labelNames, nil)}, common[1:]...)...)
	for j, p := range r.Flip.Probability {
		require.InDelta(t, flat(want[0].Probability)[j], float64(p), 1e-9)
	}
}

// TestLabelsAreTold checks which columns are labels, and that what is not for them is refused in one line with a remedy.
func TestLabelsAreTold(t *testing.T) {
	table := newLabelTable(40, 9).write(t, labelNames, nil)
	model := labelNetwork(t, table, strings.Join(labelNames, ","), "mlp:4-3")
	bare := filepath.Join("..", "..", "testdata", "heads", "none-three.onnx") // of three inputs, without metadata
	single := write(t, filepath.Join(t.TempDir(), "single.csv"), []byte("a,b,c,k,l,m\n1,0,2,1,0,0\n0,1,3,0,1,0\n2,2,1,0,0,1\n1,1,1,1,0,0\n"))
	some := write(t, filepath.Join(t.TempDir(), "some.csv"), []byte("a,b,c,k,l,m\n1,0,2,1,0,0\n0,1,3,0,1,1\n2,2,1,0,0,0\n1,1,1,.25,0,1\n"))
	for _, c := range []struct {
		args   []string
		labels bool
	}{
		{[]string{"--data", single}, false},
		{[]string{"--data", single, "--likelihood", "bernoulli"}, true},
		{[]string{"--data", some, "--likelihood", "bernoulli"}, true}, // shares of a label
	} {
		text := succeed(t, append([]string{"predict", "--json", "--quiet", "--force", "--model", bare, "--target", "k,l,m", "--input", single}, c.args...)...)
		require.Equal(t, c.labels, decode[prediction](t, strings.Split(text, "\n")[0]).Labels != nil, c.args)
	}
	r := gpexplain(t.Context(), "predict", "--model", bare, "--target", "k,l,m", "--data", write(t, some, []byte(strings.Replace(read(t, some), ".25", "0", 1))), "--force", "--index", "0", "--test-data", single)
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stderr, `the target columns "k", "l", "m" are labels of which a row has any number (row 1 of the train rows has other than a single one)`)

	names := []string{"--model", model, "--data", table, "--test-data", table}
	for _, c := range []struct {
		verb, flags, says string
	}{
		{"predict", "--coverage 0.9", "take one label at a time"},
		{"predict", "--class-weights sour=2", "sour is not one of the labels red,round,sweet; name these"},
		{"predict", "--label-smoothing 0.1", "write the smoothed labels"},
		{"predict", "--outputs red", "several labels a row; leave it out"},
		{"predict", "--likelihood categorical", "give --likelihood bernoulli"},
		{"predict", "--target sweet,red,round", "give --target red,round,sweet"},
		{"explain", "--smallest-flip", "several labels a row, and no class; use --without"},
		{"explain", "--flip 4=sour", "sour is not one of the labels red,round,sweet"},
		{"fit", "--method nystrom --select stratified -o x.gp", "several labels a row; choose another"},
	} {
		require.Contains(t, refuse(t, 1, append(append([]string{c.verb}, names...), strings.Fields(c.flags)...)...), c.says)
	}
}
