package gp_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// The posteriors of a network are latent, and refuse inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := openReference(t, "snelson")
	s := r.Sites(t)
	e := testref.Must(gp.Fit(t.Context(), r.Kernel, r.Train, s, nil))(t)
	k := testref.Must(gp.Keep(t.Context(), r.Kernel, r.Train, s, nil))(t)
	thin := testref.Must(gp.FitKept(t.Context(), r.Kernel, r.Train, s, k, nil))(t)
	for name, l := range map[string]gp.Latent{"exact": e, "thinned": thin} {
		t.Run(name, func(t *testing.T) {
			gptest.Latent(t, gptest.LatentCase{Latent: l, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
		})
	}
	gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
		e, err := gp.Fit(t.Context(), ntk.New(prior, theta), r.Train, s, &gp.Options{Mean: mean})
		return e.Warnings(), err
	}})
}

// A kernel of other parameters than those at which the examples are linearized is refused.
func TestFitRefusesOtherParameters(t *testing.T) {
	r := openReference(t, "snelson")
	theta := r.Net.Theta()
	theta[0]++
	other := ntk.New(r.Prior, theta)
	require.NotEmpty(t, other.Mismatch(r.Train))
	require.Empty(t, r.Kernel.Mismatch(r.Train))
	require.PanicsWithValue(t, "ntk: the examples are not linearized at θ* of the kernel: the parameters of the network are others; give New the parameters of the network", func() {
		_, _ = gp.Fit(t.Context(), other, r.Train, r.Sites(t), nil)
	})
}

// A model at μ₀ has the prior's mean, whatever the targets: Fit says so, and not of a trained
// network, of a mean that is fitted, or where there is nothing to fit.
func TestWarnsOfUntrainedModel(t *testing.T) {
	prior := testref.Must(ntk.NewIsotropic(.01, nil))(t)
	lik := testref.Must(glm.NewGaussian(.01))(t)
	k, x, y := ntk.New(prior, []float64{0, 0}), line(0, 1, 2), mat.NewDense(3, 1, []float64{1, 3, 5})
	fit := func(y *mat.Dense, o *gp.Options) *linearize.Warning {
		s := testref.Must(gp.NewSites(gp.NewTargets(y, lik), x.F))(t)
		e := testref.Must(gp.Fit(t.Context(), k, x, s, o))(t)
		return linearize.FindWarning(e.Warnings(), "untrained")
	}
	w := fit(y, nil)
	require.NotNil(t, w)
	require.Zero(t, w.Value)
	require.Nil(t, fit(y, &gp.Options{Mean: gp.LinearGaussian}))
	require.Nil(t, fit(mat.NewDense(3, 1, nil), nil), "the targets are the prior mean")
	for _, name := range []string{"snelson", "two-moons", "categorical", "poisson"} {
		r := testkit.OpenReference(t, name)
		require.Empty(t, r.Exact(t).Warnings())
		e := testref.Must(gp.Fit(t.Context(), r.Kernel, r.Train, r.Sites(t), nil))(t)
		require.Empty(t, e.Warnings(), name)
	}
}

// An own row passes and another panics, whether the inputs are in memory, are read from a source, or
// are those of a subset alone. What is not known passes.
func TestTrainingSet(t *testing.T) {
	x := line(0, 1, 2, 3)
	one := x.Slice(0, 1)
	gather := func(rows ...int) *linearize.Batch {
		return testref.Must(x.Gather(t.Context(), rows))(t)
	}
	of := func(src linearize.Source) gp.TrainingSet {
		return testref.Must(gp.NewTrainingSet(t.Context(), src, one))(t)
	}
	few := of(gather(1, 3))
	for name, s := range map[string]gp.TrainingSet{
		"memory": of(x), "stream": of(testkit.InTiles(x, 3)), "subset": few.Subset(testkit.InTiles(x, 3), []int{1, 3}), "subset of memory": few.Subset(x, []int{1, 3}),
	} {
		t.Run(name, func(t *testing.T) {
			n, c := s.CheckRows([]int{1, 3}, gather(1, 3))
			require.Equal(t, []int{2, 1}, []int{n, c})
			s.CheckTile(2, gather(2, 3))
			require.PanicsWithValue(t, "gp: example 1 given is not training example 3: their inputs differ; give the examples of Data at these rows", func() { s.CheckRows([]int{1, 3}, gather(1, 2)) })
			require.Panics(t, func() { s.CheckTile(2, gather(2, 1)) }, "another row in a tile")
			require.PanicsWithValue(t, "gp: range of training examples out of bounds", func() { s.CheckTile(3, gather(2, 3)) })
			require.PanicsWithValue(t, "gp: rows and examples differ in number", func() { s.CheckRows([]int{1}, gather(1, 2)) })
			wide := *x
			wide.X = mat.NewDense(4, 2, nil)
			require.Panics(t, func() { s.CheckTile(0, &wide) }, "inputs of another width")
		})
	}
	unread := few.Subset(testkit.InTiles(x, 3), []int{1, 3})
	unread.CheckRows([]int{0}, gather(2))
	hidden := *x
	hidden.X = nil
	for _, s := range []gp.TrainingSet{of(&hidden), of(testkit.InTiles(&hidden, 3)), of(struct{ linearize.Source }{x}), of(linearize.Rebatch(x, 2))} {
		s.CheckRows([]int{0}, gather(2))
	}
	all := of(x)
	all.CheckRows([]int{0}, hidden.Slice(2, 3))
}
