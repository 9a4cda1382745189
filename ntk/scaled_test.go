package ntk_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

func span(lo, hi int) []linearize.Span { return []linearize.Span{{Offset: lo, Rows: 1, Cols: hi - lo}} }

// A scaled prior multiplies the variances of each group, and keeps the means.
func TestScaled(t *testing.T) {
	base := testref.Must(ntk.NewDiagonal([]float64{1, 2, 3, 3, 5}, []float64{1, 0, 0, 2, 0}))(t)
	groups := []ntk.Group{{Name: "a", Spans: span(0, 2)}, {Name: "b", Spans: span(2, 4)}, {Name: "c", Spans: span(4, 5)}}
	s := testref.Must(ntk.NewScaled(base, 5, groups, []float64{2, 0.5, 0}))(t)
	positive := testref.Must(s.With([]float64{2, 0.5, 7}))(t)
	gptest.Prior(t, positive, 5)
	variance, mean := make([]float64, 5), make([]float64, 5)
	s.VarianceTo(variance)
	s.MeanTo(mean)
	require.Equal(t, []float64{2, 4, 1.5, 1.5, 0}, variance)
	require.Equal(t, []float64{1, 0, 0, 2, 0}, mean)
	require.Equal(t, []float64{2, 0.5, 0}, s.Factors())
	g := s.Groups()
	require.True(t, math.IsNaN(g[0].Precision))
	require.Equal(t, 1/1.5, g[1].Precision)
	require.True(t, math.IsInf(g[2].Precision, 1))
	more := testref.Must(s.With([]float64{1, 1, 1}))(t)
	more.VarianceTo(variance)
	require.Equal(t, []float64{1, 2, 3, 3, 5}, variance)
}

func TestScaledRefuses(t *testing.T) {
	base := testref.Must(ntk.NewIsotropic(1e-300, nil))(t)
	whole := []ntk.Group{{Name: "all", Spans: span(0, 4)}}
	for text, factor := range map[string]float64{
		`the factor of group "all" is -1`: -1, `the factor of group "all" is NaN`: math.NaN(), `the factor of group "all" is +Inf`: math.Inf(1), "overflow": 1e20,
	} {
		require.ErrorContains(t, testref.Err(ntk.NewScaled(base, 4, whole, []float64{factor})), text)
	}
	_, err := ntk.NewScaled(base, 5, whole, []float64{1})
	require.ErrorContains(t, err, "parameter 4 belongs to no group")
	require.PanicsWithValue(t, "ntk: groups and factors differ in number", func() { ntk.NewScaled(base, 4, whole, nil) })
}

// The g-prior has the variance g/s and holds a parameter of which the data say
// nothing at θ* [gprior 10–13].
func TestGPrior(t *testing.T) {
	p := testref.Must(ntk.NewGPrior([]float64{4, 1e-13, 8, 0, 2}, 2, []float64{1, 2, 3, 4, 5}, 3))(t)
	require.Equal(t, []int{1, 3}, p.Dead())
	require.Equal(t, []float64{2, 5e-14, 4, 0, 1}, p.Scale())
	variance, mean := make([]float64, 5), make([]float64, 5)
	p.VarianceTo(variance)
	p.MeanTo(mean)
	require.Equal(t, []float64{1.5, 0, 0.75, 0, 3}, variance)
	require.Equal(t, []float64{0, 2, 0, 4, 0}, mean)
	alive := testref.Must(ntk.NewGPrior([]float64{4, 1, 8}, 2, []float64{1, 2, 3}, 3))(t)
	gptest.Prior(t, alive, 3)
}

func TestGPriorRefuses(t *testing.T) {
	for text, c := range map[string]struct {
		ggn, theta []float64
		g          float64
	}{
		"g is 0":                                {[]float64{1}, []float64{1}, 0},
		"the information of parameter 1 is -1":  {[]float64{1, -1}, []float64{1, 1}, 1},
		"the information of parameter 0 is NaN": {[]float64{math.NaN()}, []float64{1}, 1},
		"parameter 0 is +Inf":                   {[]float64{1}, []float64{math.Inf(1)}, 1},
		"all are saturated":                     {[]float64{0, 0}, []float64{1, 1}, 1},
		"the variance of parameter 0 overflows": {[]float64{1e-10}, []float64{1}, 1e300},
	} {
		require.ErrorContains(t, testref.Err(ntk.NewGPrior(c.ggn, 1, c.theta, c.g)), text)
	}
	require.Panics(t, func() { ntk.NewGPrior([]float64{1}, 1, nil, 1) })
}
