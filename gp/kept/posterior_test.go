package kept_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

func fit(t *testing.T, q *testkit.Problem, o *kept.Options) *kept.Posterior {
	t.Helper()
	return testref.Must(kept.Fit(t.Context(), testkit.InTiles(q.Train, 7), q.Sites(t), q.Prior, q.Theta, o))(t)
}

func refit(t *testing.T, q *testkit.Problem, o *kept.Options) *kept.Posterior {
	t.Helper()
	return testref.Must(kept.Refit(t.Context(), testkit.InTiles(q.Train, 7), q.Targets(), q.Prior, q.Theta, o))(t)
}

// With all rows kept all numbers are those of gp.Fit and gp.Refit.
func TestAllRowsAreExact(t *testing.T) {
	for _, q := range append(testkit.Problems(t), testkit.Heteroscedastic()) {
		t.Run(q.Name, func(t *testing.T) {
			t.Parallel()
			scatter := gp.Scatter(q.Prior, q.Theta)
			for _, mean := range []gp.Mean{gp.Network, gp.LinearGaussian} {
				p := fit(t, q, &kept.Options{Mean: mean})
				x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: mean}))(t)
				q.RequireExact(t, p, x)
				require.Empty(t, p.Warnings())
				require.InEpsilon(t, x.EvidenceAtTheta(scatter).Value, p.EvidenceAtTheta(scatter).Value, 1e-9)
				require.Equal(t, gp.None, p.EvidenceAtTheta(scatter).Bound)
				require.Panics(t, func() { p.EvidenceRefit() })
			}
			p := refit(t, q, nil)
			x := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
			q.RequireExact(t, p, x)
			require.Empty(t, p.Warnings())
			require.InEpsilon(t, x.EvidenceRefit().Value, p.EvidenceRefit().Value, 1e-9)
			require.True(t, p.Refitted())
		})
	}
}

// The conformance suite, with all rows and with half of them.
func TestConformance(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		for name, strength := range map[string]float64{"all": 0, "some": median(fit(t, q, nil).Kept().Strength)} {
			for what, p := range map[string]*kept.Posterior{
				"fit": fit(t, q, &kept.Options{Strength: strength}), "linear": fit(t, q, &kept.Options{Strength: strength, Mean: gp.LinearGaussian}), "refit": refit(t, q, &kept.Options{Strength: strength}),
			} {
				t.Run(q.Name+"/"+name+"/"+what, func(t *testing.T) {
					gptest.Dual(t, gptest.DualCase{
						LatentCase: gptest.LatentCase{Kernel: q.Kernel, Test: q.Test, Tol: 1e-10},
						Dual:       p, Train: q.Train, SumTol: 1e-9, OtherWeights: strength > 0,
					})
				})
			}
		}
	}
}

// median returns the median of v.
func median(v []float64) float64 { return sorted(v)[len(v)/2] }

func sorted(v []float64) []float64 { return slices.Sorted(slices.Values(v)) }

// The posterior of a network is latent, and refuses inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	p := testref.Must(kept.Fit(t.Context(), r.Train, r.Sites(t), r.Prior, r.Net.Theta(), nil))(t)
	gptest.Latent(t, gptest.LatentCase{Latent: p, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
	for name, src := range map[string]linearize.Source{"memory": r.Train, "stream": testkit.InTiles(r.Train, 20)} {
		t.Run(name, func(t *testing.T) {
			gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
				p, err := kept.Fit(t.Context(), src, r.Sites(t), prior, theta, &kept.Options{Mean: mean})
				return p.Warnings(), err
			}})
		})
	}
}

// The terms by products with the gain are those by the posterior Jacobian.
func TestCrossByGain(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		p := fit(t, q, &kept.Options{Strength: median(fit(t, q, nil).Kept().Strength)})
		var got, want mat.Dense
		require.NoError(t, testref.Must(p.Cross(t.Context(), q.Test))(t).TileTo(t.Context(), &got, 0, q.Train, gp.PosteriorTerms))
		q.Kernel.BlockTo(&want, testref.Must(p.Solver.Jacobian(t.Context(), q.Test))(t), q.Train)
		testkit.RequireClose(t, q.Name, &got, &want, 1e-9)
	}
}

// A tile asks its context between parts of the kernel, and forms none after it is cancelled.
func TestTileStops(t *testing.T) {
	q := testkit.NewProblemOf("tile", 3, 700, 2, glm.Categorical{}, 1, 4)
	p := fit(t, q, nil)
	cross := testref.Must(p.Cross(t.Context(), q.Test))(t)
	for _, terms := range []gp.Terms{gp.PosteriorTerms, gp.RawTerms} {
		testkit.Stops(t, "tile", 8, func(ctx context.Context) error { return cross.TileTo(ctx, new(mat.Dense), 0, q.Train, terms) })
	}
}
