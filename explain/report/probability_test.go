package report

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
)

// The steps from the network's probability to the calibrated one have the numbers of the formula: σ(f), σ(τf) and
// the average; a step that changes nothing is left out, and f is said to stand for the first.
func TestReachedSaysEachStep(t *testing.T) {
	const f, tau = 1.688, .504
	sigmoid := func(f float64) float64 { return 1 / (1 + math.Exp(-f)) }
	p := newDemo(1, 30, 9, 4, 9).page(t, 9, &explain.Options{Similar: 2})
	p.Report.Fit.Refit = false
	p.Report.Outputs[0].Network = f
	x := &p.Report.Prediction
	x.Mean, x.MAPProbability = []result.Float{f}, []result.Float{result.Float(sigmoid(-f)), result.Float(sigmoid(f))}
	x.Calibration = &result.Scales{Scale: .25, Temperature: tau, NoiseScale: 1}
	x.ProbabilitySD = []result.Float{.05, .05}
	p.Report.Fit.Calibration = &result.Calibration{Method: "loo", Scales: *x.Calibration}
	for averaged, want := range map[float64]string{
		.69:              "Probability of 9: " + Probability(sigmoid(f)) + " by the network alone → temperature 0.504 (leave-one-out) → " + Probability(sigmoid(tau*f)) + " → averaged over the networks that fit the training data (covariance × 0.25) → 0.690 ± 0.050.",
		sigmoid(tau * f): "Probability of 9: " + Probability(sigmoid(f)) + " by the network alone → temperature 0.504 (leave-one-out) → " + Probability(sigmoid(tau*f)) + " ± 0.050.",
	} {
		x.Probability = []result.Float{result.Float(1 - averaged), result.Float(averaged)}
		page := strings.ReplaceAll(html(t, p), "\u00a0", " ")
		require.Contains(t, page, want)
		require.Contains(t, page, "f, explained below, stands for probability "+Probability(sigmoid(f))+" of 9: that of the network, before temperature and averaging.")
		require.Contains(t, strings.Join(strings.Fields(text(t, p, 80)), " "), want)
	}
}

// On a terminal the rows are a table, a line each.
func TestWriteRows(t *testing.T) {
	p := drawnPage(30, 0, 4, 9)
	var b strings.Builder
	require.NoError(t, p.WriteRows(&b, 80))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	require.Len(t, lines, 31)
	require.Regexp(t, `^ +row +label +predicted +with probability +of its label`, lines[0])
	require.Regexp(t, `^ +\d+ +[49] +(✗ )?[49] +[01]\.\d+ +[01]\.\d+`, lines[1])

	p.Predictions.ClassNames = []string{strings.Repeat("four ", 20), strings.Repeat("nine", 20)}
	for columns, want := range map[int]int{80: 80, 100: 100, 300: 260} {
		b.Reset()
		require.NoError(t, p.WriteRows(&b, columns))
		widest := 0
		for line := range strings.Lines(b.String()) {
			widest = max(widest, utf8.RuneCountInString(strings.TrimRight(line, "\n ")))
		}
		require.LessOrEqual(t, widest, want)
		require.Greater(t, widest, want*2/3)
	}
}
