package sparse_test

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
	"github.com/funcgp/funcgp/sparse"
)

// With all examples inducing a posterior is all that a gp.Dual promises, and
// with fewer all that a gp.Latent does.
func TestConformance(t *testing.T) {
	for _, q := range []*problem{problems(t)[2], problems(t)[5]} {
		t.Run(q.Name, func(t *testing.T) {
			c := gptest.LatentCase{Test: q.Test, Kernel: q.Kernel, Tol: 1e-10}
			gptest.Dual(t, gptest.DualCase{
				LatentCase: c, Dual: q.refit(t, q.all(t), linear()), Train: q.Train, SumTol: 1e-9,
			})
			c.Latent = q.fit(t, q.some(t), linear())
			gptest.Latent(t, c)
			c.Latent = q.refit(t, q.some(t), linear()).Projected
			gptest.Latent(t, c)
		})
	}
}

// everything is a list of all numbers that a posterior gives.
func (q *problem) everything(t *testing.T, p *sparse.Posterior) []float64 {
	t.Helper()
	var mean, cov, joint, self mat.Dense
	require.NoError(t, p.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, p.JointTo(t.Context(), nil, &joint, q.Test))
	require.NoError(t, p.SplitTo(t.Context(), nil, &self, nil, q.Test))
	left, leftCov := q.leftOut(t, p, 1, 4, q.N-1)
	out := append(flat(&mean), flat(&cov)...)
	out = append(append(out, flat(left)...), flat(leftCov)...)
	out = append(append(out, flat(&joint)...), flat(&self)...)
	out = append(append(out, p.Alpha()...), p.PseudoTargets()...)
	out = append(out, flat(crossOf(t, p, q.Test, q.Train, q.N, gp.PosteriorTerms))...)
	grad := testref.Must(p.GradientLinearGaussian(t.Context(), q.groups()))(t)
	return append(append(out, grad...), p.Projected.EvidenceLinearGaussian().Value, p.TraceError())
}

// large has several chunks and panels, each with a rest.
func large() *problem { return newProblem("several-chunks", 41, 700, 3, glm.Categorical{}, 1) }

// Results are the same to the last bit for any number of processors.
func TestBitIdenticalForProcessors(t *testing.T) {
	q := large()
	run := func(procs int) []float64 {
		testref.Procs(t, procs)
		var out []float64
		z := testref.Must(sparse.Select(t.Context(), sparse.RandomCholesky{Seed: 3}, q.Kernel, q.Train, 40, nil))(t)
		p := q.refit(t, z, &sparse.Options{MaxIter: 2})
		out = append(out, q.everything(t, p)...)
		return out
	}
	want := run(1)
	for _, procs := range []int{2, 3} {
		require.Equal(t, want, run(procs), "GOMAXPROCS %d", procs)
	}
}

// Results are the same to the last bit for any tiles of the data.
func TestBitIdenticalForTiles(t *testing.T) {
	q := large()
	run := func(x linearize.Source) []float64 {
		var out []float64
		for _, how := range []sparse.Selector{sparse.Greedy{}, sparse.RandomCholesky{}, sparse.KMeans{}} {
			z := testref.Must(sparse.Select(t.Context(), how, q.Kernel, x, 30, nil))(t)
			for _, r := range z.Rows {
				out = append(out, float64(r))
			}
		}
		p, err := sparse.Fit(t.Context(), q.Kernel, x, q.Sites(t), q.inducing(t, 3, 9, 100, 555, 680), linear())
		require.NoError(t, err)
		out = append(out, q.everything(t, p)...)
		p, err = sparse.Refit(t.Context(), q.Kernel, x, q.Targets(), q.inducing(t, 3, 9, 100, 555, 680), &sparse.Options{MaxIter: 2})
		require.NoError(t, err)
		return append(out, q.everything(t, p)...)
	}
	want := run(q.Train)
	for _, size := range []int{1, 64, 300, 341, 342, 699} {
		require.Equal(t, want, run(testkit.InTiles(q.Train, size)), "tiles of %d", size)
	}
}

// The posterior of a network is latent, and refuses inputs of another network.
func TestConformanceOfNetwork(t *testing.T) {
	r := testkit.OpenReference(t, "snelson")
	rows := []int{0, 40, 90}
	some := testref.Must(r.Train.Gather(t.Context(), rows))(t)
	z := &sparse.Inducing{Rows: rows, Batch: some}
	p := testref.Must(sparse.Fit(t.Context(), r.Kernel, r.Train, r.Sites(t), z, nil))(t)
	gptest.Latent(t, gptest.LatentCase{Latent: p, Kernel: r.Kernel, Test: r.Test.Slice(0, 6), Tol: 1e-9})
	gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
		p, err := sparse.Fit(t.Context(), ntk.New(prior, theta), r.Train, r.Sites(t), z, &sparse.Options{Mean: mean})
		return p.Warnings(), err
	}})
	gptest.Fit(t, gptest.FitCase{Prior: r.Prior, Theta: r.Net.Theta(), Fit: func(prior ntk.Prior, theta []float64, mean gp.Mean) ([]error, error) {
		p, err := sparse.FitSubset(t.Context(), ntk.New(prior, theta), r.Train, r.Sites(t).Rows(rows), z, &sparse.Options{Mean: mean})
		return p.Warnings(), err
	}})
}
