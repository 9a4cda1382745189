package weightspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

func fitSums(t *testing.T, q *testkit.Problem, mean gp.Mean) *gp.Posterior {
	t.Helper()
	return testref.Must(weightspace.FitSums(t.Context(), testkit.InTiles(q.Train, 7), q.Sites(t), q.Prior, q.Theta, &weightspace.Options{Mean: mean}))(t)
}

func refitSums(t *testing.T, q *testkit.Problem) *gp.Posterior {
	t.Helper()
	return testref.Must(weightspace.RefitSums(t.Context(), testkit.InTiles(q.Train, 7), q.Targets(), q.Prior, q.Theta, nil, nil))(t)
}

// A posterior of sums by the precision of the parameters has all numbers of gp.Fit and gp.Refit.
func TestSumsAreExact(t *testing.T) {
	for _, q := range append(testkit.Problems(t), testkit.Heteroscedastic()) {
		t.Run(q.Name, func(t *testing.T) {
			t.Parallel()
			scatter := gp.Scatter(q.Prior, q.Theta)
			for _, mean := range []gp.Mean{gp.Network, gp.LinearGaussian} {
				p := fitSums(t, q, mean)
				x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: mean}))(t)
				q.RequireExact(t, p, x)
				require.Empty(t, p.Warnings())
				require.InEpsilon(t, x.EvidenceAtTheta(scatter).Value, p.EvidenceAtTheta(scatter).Value, 1e-9)
				require.Equal(t, gp.None, p.EvidenceAtTheta(scatter).Bound)
				require.Panics(t, func() { p.EvidenceRefit() })
			}
			p := refitSums(t, q)
			x := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
			q.RequireExact(t, p, x)
			require.Empty(t, p.Warnings())
			require.InEpsilon(t, x.EvidenceRefit().Value, p.EvidenceRefit().Value, 1e-9)
			require.Less(t, p.Distance(), 1e-6)
		})
	}
}

func TestSumsConformance(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		for what, p := range map[string]*gp.Posterior{"fit": fitSums(t, q, gp.Network), "linear": fitSums(t, q, gp.LinearGaussian), "refit": refitSums(t, q)} {
			t.Run(q.Name+"/"+what, func(t *testing.T) {
				gptest.Dual(t, gptest.DualCase{LatentCase: gptest.LatentCase{Kernel: q.Kernel, Test: q.Test, Tol: 1e-10}, Dual: p, Train: q.Train, SumTol: 1e-9})
			})
		}
	}
}

// Parameters without a prior variance are held, and streams of any batches give the same bits.
func TestSumsOfStructures(t *testing.T) {
	for _, q := range structureProblems(t) {
		t.Run(q.name, func(t *testing.T) {
			k := ntk.New(q.prior, q.theta)
			x := testref.Must(gp.Fit(t.Context(), k, q.train, q.sites, &gp.Options{Mean: gp.LinearGaussian}))(t)
			var mean, cov, wantMean, wantCov mat.Dense
			require.NoError(t, x.PredictTo(t.Context(), &wantMean, &wantCov, q.test))
			var first *gp.Posterior
			for _, src := range []linearize.Source{q.train, testkit.InTiles(q.train, 3)} {
				p := testref.Must(weightspace.FitSums(t.Context(), src, q.sites, q.prior, q.theta, &weightspace.Options{Mean: gp.LinearGaussian}))(t)
				require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.test))
				testkit.RequireClose(t, "mean", &mean, &wantMean, 1e-9)
				testkit.RequireClose(t, "covariance", &cov, &wantCov, 1e-9)
				n := q.train.Len()
				testkit.RequireClose(t, "C", testkit.CrossOf(t, p, q.test, q.train, 7, gp.PosteriorTerms), testkit.CrossOf(t, x, q.test, q.train, n, gp.PosteriorTerms), 1e-8)
				if first == nil {
					first = p
				}
				require.Equal(t, first.EvidenceAtTheta(0), p.EvidenceAtTheta(0))
			}
		})
	}
}

// A loaded posterior answers bit for bit as the saved one, and refuses other targets.
func TestSumsSave(t *testing.T) {
	q := testkit.Problems(t)[5]
	p, path := refitSums(t, q), t.TempDir()+"/posterior"
	require.NoError(t, store.Write(path, "sums", 1, p.Save))
	f := testref.Must(store.Open(path, "sums", 1))(t)
	defer f.Close()
	back := testref.Must(weightspace.LoadSums(t.Context(), f, q.Train, q.Targets(), q.Prior, q.Theta, nil))(t)
	for _, of := range []func(d gp.Dual, a, b *mat.Dense) error{
		func(d gp.Dual, a, b *mat.Dense) error { return d.PredictTo(t.Context(), a, b, q.Test) },
		func(d gp.Dual, a, b *mat.Dense) error {
			return d.LeaveOneOutTo(t.Context(), a, b, []int{1, 4}, testref.Must(q.Train.Gather(t.Context(), []int{1, 4}))(t))
		},
	} {
		var a, b, wantA, wantB mat.Dense
		require.NoError(t, of(p, &wantA, &wantB))
		require.NoError(t, of(back, &a, &b))
		require.Equal(t, wantA, a)
		require.Equal(t, wantB, b)
	}
	require.Equal(t, p.EvidenceRefit(), back.EvidenceRefit())
	require.Equal(t, p.PseudoTargets(), back.PseudoTargets())
	other := q.Targets()
	other.Weights = make([]float64, q.N)
	_, err := weightspace.LoadSums(t.Context(), f, q.Train, other, q.Prior, q.Theta, nil)
	require.ErrorContains(t, err, "the targets or the likelihood are others")
}

// The posterior of a network is latent, refuses inputs of another network, and says where that is untrained.
func TestSumsOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	p := testref.Must(weightspace.FitSums(t.Context(), r.Train, r.Sites(t), r.Prior, r.Net.Theta(), nil))(t)
	gptest.Latent(t, gptest.LatentCase{Latent: p, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
	for name, src := range map[string]linearize.Source{"memory": r.Train, "stream": testkit.InTiles(r.Train, 20)} {
		t.Run(name, func(t *testing.T) {
			gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
				p, err := weightspace.FitSums(t.Context(), src, r.Sites(t), prior, theta, &weightspace.Options{Mean: mean})
				return p.Warnings(), err
			}})
		})
	}
}
