package sparse_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	matrices "github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// leftOut returns the moments of the training examples at these rows without
// themselves.
func (q *problem) leftOut(t *testing.T, p gp.Dual, rows ...int) (mean, cov *mat.Dense) {
	t.Helper()
	x := testref.Must(q.Train.Gather(t.Context(), rows))(t)
	mean, cov = new(mat.Dense), new(mat.Dense)
	require.NoError(t, p.LeaveOneOutTo(t.Context(), mean, cov, rows, x))
	return mean, cov
}

// With all examples inducing, the moments are those of the exact posterior (E17).
func TestLeaveOneOutOfAllInducingIsExact(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		require := func(p gp.Dual, x gp.Dual) {
			mean, cov := q.leftOut(t, p, matrices.Range(q.N)...)
			wantMean, wantCov := q.leftOut(t, x, matrices.Range(q.N)...)
			requireClose(t, "mean", mean, wantMean, 1e-8)
			requireClose(t, "covariance", cov, wantCov, 1e-8)
		}
		for _, m := range []gp.Mean{gp.Network, gp.LinearGaussian} {
			x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: m}))(t)
			require(q.fit(t, q.all(t), &sparse.Options{Mean: m}), x)
		}
		x := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
		require(q.refit(t, q.all(t), linear()), x)
	})
}

// With fewer inducing examples or pairs, the moments are what the posterior predicts
// given the other examples, one after the other.
func TestLeaveOneOutIsRemove(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		q.requireRemove(t, q.fit(t, q.some(t), linear()))
	})
	eachPairs(t, func(t *testing.T, q *problem) {
		q.requireRemove(t, q.fit(t, q.somePairs(t), linear()))
	})
}

// without is the posterior of the other examples through the same inducing elements, at the sites of p.
func (q *problem) without(t *testing.T, p *sparse.Posterior, i int) *sparse.Posterior {
	t.Helper()
	rest := append(seq(0, i), seq(i+1, q.N)...)
	x := testref.Must(q.Train.Gather(t.Context(), rest))(t)
	z := *p.Inducing()
	z.Rows = nil
	return testref.Must(sparse.Fit(t.Context(), q.Kernel, x, p.Sites().Rows(rest), &z, linear()))(t)
}

func (q *problem) requireRemove(t *testing.T, p *sparse.Posterior) {
	t.Helper()
	mean, cov := q.leftOut(t, p, matrices.Range(q.N)...)
	for i := range q.N {
		less := q.without(t, p, i)
		var m, v mat.Dense
		require.NoError(t, less.PredictTo(t.Context(), &m, &v, q.Train.Slice(i, i+1)))
		scale := math.Max(mat.Max(&m), -mat.Min(&m))
		require.InDeltaSlice(t, flat(&m), mean.RawRowView(i), 1e-8*(1+scale), "mean without %d", i)
		requireClose(t, "covariance", cov.Slice(i*q.C, (i+1)*q.C, 0, q.C), &v, 1e-8)
	}
}

// A subset of data has seen its own examples alone: there the moments are those of the
// exact posterior of the subset, and elsewhere the prediction.
func TestLeaveOneOutOfSubset(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		y := pick(q.Y, z.Rows)
		x := testref.Must(gp.Refit(t.Context(), q.Kernel, z.Batch, gp.NewTargets(y, q.Likelihood), nil))(t)
		p := testref.Must(sparse.RefitSubset(t.Context(), q.Kernel, q.Train, gp.NewTargets(y, q.Likelihood), z, nil))(t)
		var within, withinCov, predicted, predictedCov mat.Dense
		require.NoError(t, x.LeaveOneOutTo(t.Context(), &within, &withinCov, matrices.Range(z.Len()), z.Batch))
		require.NoError(t, p.PredictTo(t.Context(), &predicted, &predictedCov, q.Train))
		mean, cov := q.leftOut(t, p, matrices.Range(q.N)...)
		at := map[int]int{}
		for i, r := range z.Rows {
			at[r] = i
		}
		for i := range q.N {
			from, fromCov, k := &predicted, &predictedCov, i
			if j, ok := at[i]; ok {
				from, fromCov, k = &within, &withinCov, j
			}
			requireClose(t, "mean", mean.Slice(i, i+1, 0, q.C), from.Slice(k, k+1, 0, q.C), 1e-8)
			requireClose(t, "covariance", cov.Slice(i*q.C, (i+1)*q.C, 0, q.C), fromCov.Slice(k*q.C, (k+1)*q.C, 0, q.C), 1e-8)
		}
	})
}

// The toys' moments with all examples inducing are those of PyTorch.
func TestLeaveOneOutReferences(t *testing.T) {
	for _, name := range []string{"two-moons", "categorical", "poisson"} {
		t.Run(name, func(t *testing.T) {
			r := openReference(t, name)
			want := testref.Open(t, "selection/"+name)
			rows := matrices.Range(r.Train.Len())
			p, err := sparse.Refit(t.Context(), r.Kernel, r.Train, r.Targets(), &sparse.Inducing{Rows: rows, Batch: r.Train}, nil)
			require.NoError(t, err)
			var mean, cov mat.Dense
			require.NoError(t, p.LeaveOneOutTo(t.Context(), &mean, &cov, rows, r.Train))
			testref.RequireClose(t, flat(&mean), want.Floats("loo_first_order_mean"), 1e-8, "mean")
			testref.RequireClose(t, flat(&cov), want.Floats("loo_first_order_cov"), 1e-8, "covariance")
		})
	}
}

// By the posterior of all rows the means are those of the exact posterior, where the
// inducing examples are few too, and the covariance stays that of Nyström. The means of
// Nyström alone lie far nearer to the network.
func TestLeaveOneOutByKeptRows(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		p, s := q.fit(t, q.some(t), nil), q.Sites(t)
		rows := matrices.Range(q.N)
		k := testref.Must(gp.Keep(t.Context(), q.Kernel, q.Train, s, nil))(t)
		kept := testref.Must(gp.FitKept(t.Context(), q.Kernel, q.Train, s, k, nil))(t)
		exact := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, s, nil))(t)
		var mean, cov, alone, aloneCov mat.Dense
		require.NoError(t, p.LeaveOneOutBy(t.Context(), kept, &mean, &cov, rows, q.Train))
		require.NoError(t, p.LeaveOneOutBy(t.Context(), kept, &alone, nil, rows, q.Train))
		require.NoError(t, p.LeaveOneOutBy(t.Context(), kept, nil, &aloneCov, rows, q.Train))
		require.True(t, mat.Equal(&mean, &alone) && mat.Equal(&cov, &aloneCov))
		nystrom, nystromCov := q.leftOut(t, p, rows...)
		require.True(t, mat.Equal(nystromCov, &cov))
		want, _ := q.leftOut(t, exact, rows...)
		for i := range q.N {
			sd := math.Sqrt(mat.Trace(cov.Slice(i*q.C, (i+1)*q.C, 0, q.C)))
			for c := range q.C {
				tolerance := 1e-9 * (1 + math.Abs(want.At(i, c)))
				if mean.At(i, c) == nystrom.At(i, c) {
					tolerance = 2e-3 * sd // the steps by Nyström and by kept rows, of 1e-3 each
				}
				require.InDelta(t, want.At(i, c), mean.At(i, c), tolerance, "row %d", i)
			}
		}
	})
	q := problems(t)[0]
	require.Panics(t, func() {
		_ = q.refit(t, q.some(t), nil).LeaveOneOutBy(t.Context(), nil, new(mat.Dense), nil, []int{0}, q.Train.Slice(0, 1))
	})
}

// Pairs of examples that lie near each other, and noise so small that an example nearly fixes the function at its own
// input: each number is near that of the exact posterior, or NaN, and none is rounding alone.
func TestLeaveOneOutHasDigitsOrIsNaN(t *testing.T) {
	const n, p = 20, 30
	lost, kept := 0, 0
	for _, near := range []float64{1, 1e-2, 1e-4, 1e-6, 1e-8} {
		rng := rand.New(rand.NewPCG(1, 2))
		j := mat.NewDense(n, p, nil)
		for i := range n {
			for k := range p {
				if j.Set(i, k, rng.NormFloat64()); i%2 == 1 {
					j.Set(i, k, j.At(i-1, k)+near*j.At(i, k))
				}
			}
		}
		zero, span := mat.NewDense(n, 1, nil), []linearize.Span{{Name: "θ", Rows: 1, Cols: p}}
		x := &linearize.Batch{F: zero, P: p, Blocks: []linearize.Block{&linearize.Full{J: j, Params: span, C: 1}}}
		kernel := ntk.New(testref.Must(ntk.NewIsotropic(1, nil))(t), make([]float64, p))
		for _, noise := range []float64{1e-4, 1e-6, 1e-8, 1e-10} {
			s := testref.Must(gp.NewSites(gp.NewTargets(zero, testref.Must(glm.NewGaussian(noise))(t)), zero))(t)
			exact := testref.Must(gp.Fit(t.Context(), kernel, x, s, &gp.Options{Mean: gp.LinearGaussian}))(t)
			post := testref.Must(sparse.Fit(t.Context(), kernel, x, s, &sparse.Inducing{Rows: matrices.Range(n), Batch: x}, linear()))(t)
			var got, want mat.Dense
			require.NoError(t, post.LeaveOneOutTo(t.Context(), nil, &got, matrices.Range(n), x))
			require.NoError(t, exact.LeaveOneOutTo(t.Context(), nil, &want, matrices.Range(n), x))
			for i := range n {
				if math.IsNaN(got.At(i, 0)) {
					lost++
					continue
				}
				kept++
				require.InEpsilon(t, want.At(i, 0), got.At(i, 0), 1e-5, "example %d, %v apart, noise %v", i, near, noise)
			}
		}
	}
	require.Positive(t, lost)
	require.Positive(t, kept)
}
