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

// moments returns what a prior says about p parameters.
func moments(prior ntk.Prior, p int) (mean, variance []float64) {
	mean, variance = make([]float64, p), make([]float64, p)
	for i := range p {
		mean[i], variance[i] = math.NaN(), math.NaN()
	}
	prior.MeanTo(mean)
	prior.VarianceTo(variance)
	return mean, variance
}

// spansOf returns two layers, of which one is stored apart.
func spansOf() []linearize.Span {
	return []linearize.Span{
		{Name: "fc.weight", Offset: 0, Rows: 1, Cols: 2},
		{Name: "head", Offset: 2, Rows: 1, Cols: 1},
		{Name: "fc.bias", Offset: 3, Rows: 1, Cols: 1},
	}
}

func TestIsotropic(t *testing.T) {
	for _, c := range []struct {
		mean, want []float64
	}{
		{nil, []float64{0, 0, 0}},
		{[]float64{2}, []float64{2, 2, 2}},
		{[]float64{1, 2, 3}, []float64{1, 2, 3}},
	} {
		p := testref.Must(ntk.NewIsotropic(4, c.mean))(t)
		require.Equal(t, 4.0, p.Precision())
		mean, variance := moments(p, 3)
		require.Equal(t, c.want, mean)
		require.Equal(t, []float64{0.25, 0.25, 0.25}, variance)
	}
	p := testref.Must(ntk.NewIsotropic(4, []float64{1, 2}))(t)
	require.Panics(t, func() { p.MeanTo(make([]float64, 3)) })
}

func TestDiagonal(t *testing.T) {
	given := []float64{1, 2, 3}
	p := testref.Must(ntk.NewDiagonal(given, []float64{5}))(t)
	given[0] = 9
	mean, variance := moments(p, 3)
	require.Equal(t, []float64{5, 5, 5}, mean)
	require.Equal(t, []float64{1, 2, 3}, variance, "the prior keeps a copy")
	require.Panics(t, func() { p.VarianceTo(make([]float64, 2)) })
	require.Panics(t, func() { p.MeanTo(make([]float64, 4)) })
}

func TestLayerwise(t *testing.T) {
	groups := ntk.ByLayer(spansOf(), 2)
	require.Len(t, groups, 2)
	require.Equal(t, "fc", groups[0].Name)
	require.Equal(t, "head", groups[1].Name)
	groups[1].Precision = 8
	p := testref.Must(ntk.NewLayerwise(4, groups, nil))(t)
	groups[0].Precision = 100
	groups[0].Spans[0].Offset = 1
	mean, variance := moments(p, 4)
	require.Equal(t, []float64{0, 0, 0, 0}, mean)
	require.Equal(t, []float64{0.5, 0.5, 0.125, 0.5}, variance, "the prior keeps a copy")
	require.Equal(t, 2.0, p.Groups()[0].Precision)

	tensors := ntk.ByTensor(spansOf(), 2)
	require.Len(t, tensors, 3)
	require.Equal(t, "fc.bias", tensors[2].Name)
}

func TestPriorErrors(t *testing.T) {
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64} {
		require.ErrorContains(t, testref.Err(ntk.NewIsotropic(v, nil)), "isotropic prior: the precision is")
		_, err := ntk.NewLayerwise(4, ntk.ByLayer(spansOf(), v), nil)
		require.ErrorContains(t, err, `group "fc": the precision is`)
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		require.ErrorContains(t, testref.Err(ntk.NewDiagonal([]float64{1, v}, nil)), "variance of parameter 1 is")
	}
	for _, v := range []float64{math.NaN(), math.Inf(-1)} {
		require.ErrorContains(t, testref.Err(ntk.NewIsotropic(1, []float64{0, v})), "mean 1 is")
		require.ErrorContains(t, testref.Err(ntk.NewDiagonal([]float64{1, 1}, []float64{0, v})), "mean 1 is")
		require.ErrorContains(t, testref.Err(ntk.NewLayerwise(4, ntk.ByLayer(spansOf(), 1), []float64{v})), "mean 0 is")
	}
	_, err := ntk.NewDiagonal([]float64{1, 1}, []float64{1, 2, 3})
	require.ErrorContains(t, err, "3 means for 2 variances")
	_, err = ntk.NewLayerwise(4, ntk.ByLayer(spansOf(), 1), []float64{1, 2})
	require.ErrorContains(t, err, "2 means for 4 parameters")
}

// TestPartition: groups that do not hold every parameter once.
func TestPartition(t *testing.T) {
	groups := func(edit func(s []linearize.Span) []linearize.Span) []ntk.Group {
		return ntk.ByTensor(edit(spansOf()), 1)
	}
	for _, c := range []struct {
		p    int
		edit func(s []linearize.Span) []linearize.Span
		want string
	}{
		{4, func(s []linearize.Span) []linearize.Span { return s[:2] }, "parameter 3 belongs to no group"},
		{4, func(s []linearize.Span) []linearize.Span { return s[1:] }, "parameter 0 belongs to no group"},
		{5, func(s []linearize.Span) []linearize.Span { return s }, "parameter 4 belongs to no group"},
		{3, func(s []linearize.Span) []linearize.Span { return s }, `tensor "fc.bias" of group "fc.bias" lies outside the 3 parameters`},
		{4, func(s []linearize.Span) []linearize.Span { s[1].Offset = -1; return s }, "lies outside"},
		{4, func(s []linearize.Span) []linearize.Span { s[0].Cols = 3; return s }, `parameter 2 belongs to group "fc.weight"`},
		{4, func(s []linearize.Span) []linearize.Span { return append(s, s[0]) }, "parameter 0 belongs to group"},
		{4, func([]linearize.Span) []linearize.Span { return nil }, "parameter 0 belongs to no group"},
	} {
		require.ErrorContains(t, testref.Err(ntk.NewLayerwise(c.p, groups(c.edit), nil)), c.want)
	}
	require.NoError(t, testref.Err(ntk.NewLayerwise(0, nil, nil)))
}

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

func TestPriorsConform(t *testing.T) {
	const p = 12
	variance, mean := make([]float64, p), make([]float64, p)
	for i := range p {
		variance[i], mean[i] = float64(i+1)/7, float64(i)-3
	}
	spans := []linearize.Span{
		{Name: "0.bias", Offset: 9, Rows: 1, Cols: 3}, {Name: "0.weight", Rows: 3, Cols: 2}, {Name: "1.weight", Offset: 6, Rows: 1, Cols: 3},
	}
	layers := ntk.ByLayer(spans, 2)
	layers[0].Precision = 0.1
	prior := func(p ntk.Prior, err error) ntk.Prior {
		t.Helper()
		require.NoError(t, err)
		return p
	}
	isotropic, err := ntk.NewIsotropic(3, nil)
	shifted, err2 := ntk.NewIsotropic(3, []float64{0.5})
	moved, err3 := ntk.NewIsotropic(3, mean)
	diagonal, err4 := ntk.NewDiagonal(variance, mean)
	layerwise, err5 := ntk.NewLayerwise(p, layers, mean)
	tensors, err6 := ntk.NewLayerwise(p, ntk.ByTensor(spans, 5), nil)
	for name, c := range map[string]ntk.Prior{
		"isotropic": prior(isotropic, err), "isotropic/mean": prior(shifted, err2), "isotropic/means": prior(moved, err3),
		"diagonal": prior(diagonal, err4), "layerwise": prior(layerwise, err5), "tensors": prior(tensors, err6),
	} {
		t.Run(name, func(t *testing.T) { gptest.Prior(t, c, p) })
	}
}
