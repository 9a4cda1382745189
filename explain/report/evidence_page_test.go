package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// evidencePage is a page of two layers, of which one runs to 0 and one to the edge.
func evidencePage() *EvidencePage {
	noise := result.Float(.1)
	start := result.EvidencePoint{Variances: []result.Float{1, 1}, Noise: &noise, LogEvidence: -30}
	best := result.EvidencePoint{Variances: []result.Float{0, 40}, Noise: &noise, LogEvidence: -12}
	p := &EvidencePage{Fit: result.Fit{Examples: 40, Outputs: 1, Parameters: 12, PriorPrecision: 1}, Values: result.EvidenceValues{AtTheta: result.Float(math.Inf(-1)), LinearGaussian: -14, Refit: -12, HeldSites: -13}, At: .025, Several: true,
		Optimum: &result.EvidenceOptimum{Form: "refit", Kind: "groups", Start: start, Best: best, Groups: []string{"one", "two"}, Parameters: []int{8, 4}, Zero: []string{"one"}, Edge: []string{"two", "noise"},
			Iterations: 3, Settled: true, Maxima: []result.EvidencePoint{best, start}, Trajectory: []result.EvidencePoint{start, best}}, Normalized: []string{"one"}, Origin: Origin{Model: "<b>net</b>"}}
	for k := range 13 {
		x := float64(k-6) / 2
		p.Curve = append(p.Curve, result.EvidenceCurvePoint{PriorPrecision: result.Float(.025 * math.Exp(x)), EvidenceValues: result.EvidenceValues{AtTheta: result.Float(math.Inf(-1)), LinearGaussian: result.Float(-14 - 30*x*x), Refit: result.Float(-12 - x*x), HeldSites: result.Float(-13 - 2*x*x)}})
	}
	return p
}

func TestEvidencePage(t *testing.T) {
	var b strings.Builder
	p := evidencePage()
	require.NoError(t, p.WriteHTML(&b))
	text := b.String()
	for _, want := range []string{"The prior variance of one runs to 0", "The search ended at the edge of its range for two and noise", "2 maxima were found; the next has log evidence −30",
		"do not depend on the scale of one", "is −∞ under this prior", "runs to 0", "at the edge of the range", "the optimum: precision 0.025, log evidence -12", "&lt;b&gt;net"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 3, strings.Count(text, `class="curveline`), "that at θ* is nowhere finite")
	require.Equal(t, 1, strings.Count(text, "<circle"))
	// No curve leaves the frame, although one falls far below it.
	for _, m := range regexp.MustCompile(`class="curveline[^"]*" d="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		numbers := regexp.MustCompile(`-?[\d.]+`).FindAllString(m[1], -1)
		require.Greater(t, len(numbers), 8)
		for i := 1; i < len(numbers); i += 2 {
			y, err := strconv.ParseFloat(numbers[i], 64)
			require.NoError(t, err)
			require.True(t, y >= 8 && y <= 308, m[1])
		}
	}

	p.Optimum, p.Several, p.Curve = nil, false, nil
	p.Groups = []result.EvidenceGroup{{Name: "layer", Parameters: 8, Variance: 1, Gradient: result.EvidenceValues{AtTheta: 3, LinearGaussian: 2, Refit: -1.5, HeldSites: 1}}}
	b.Reset()
	require.NoError(t, p.WriteHTML(&b))
	require.Contains(t, b.String(), "Log evidence −12")
	require.Contains(t, b.String(), "−1.5")
	require.NotContains(t, b.String(), "<svg viewBox=\"0 0 440")
	require.ErrorIs(t, p.WriteHTML(full{}), errFull)
}

// A curve is cut where it crosses the lower end, and where it is not defined.
func TestAbove(t *testing.T) {
	nan, low := math.NaN(), math.Inf(-1)
	x, y := above([]float64{0, 1, 2, 3, 4, 5}, []float64{-1, 1, 3, -1, low, 2})
	require.Equal(t, []float64{.5, 1, 2, 2.75, 5}, finiteOf(x))
	require.Equal(t, []float64{0, 1, 3, 0, 2}, finiteOf(y))
	require.Equal(t, "M0.5 0L1 1L2 3L2.75 0M5 2", path(x, y))
	_, y = above([]float64{0, 1}, []float64{nan, 1})
	require.Equal(t, []float64{1}, finiteOf(y))
}

func finiteOf(v []float64) []float64 {
	var out []float64
	for _, x := range v {
		if !math.IsNaN(x) {
			out = append(out, x)
		}
	}
	return out
}
