package ntk_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

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
