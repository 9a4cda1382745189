package sparse_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/sparse"
)

func testRand() *rand.Rand { return rand.New(rand.NewPCG(8, 9)) }

// some2 are inducing examples of a large problem.
func (q *problem) some2(t *testing.T) *sparse.Inducing { return q.inducing(t, 1, 50, 80, 400, 600) }

func requireSameTo(t *testing.T, got, want gp.Latent, q *problem, tol float64) {
	t.Helper()
	var mean, cov, wantMean, wantCov mat.Dense
	require.NoError(t, got.PredictTo(t.Context(), &mean, &cov, q.Test))
	require.NoError(t, want.PredictTo(t.Context(), &wantMean, &wantCov, q.Test))
	requireClose(t, "mean", &mean, &wantMean, tol)
	requireClose(t, "covariance", &cov, &wantCov, tol)
}

// The report's numbers are what their definitions say.
func TestReport(t *testing.T) {
	each(t, func(t *testing.T, q *problem) {
		z := q.some(t)
		p, e := q.fit(t, z, linear()), q.dense(t, q.Sites(t), z)
		r := testref.Must(p.Report(t.Context(), q.Test, q.N, 0))(t)
		require.Equal(t, []int{q.N, 7, 7 * q.C, 7 * q.C}, []int{r.Examples, r.Inducing, r.Rows, r.Rank})
		require.Equal(t, p.TraceError(), r.TraceError)
		left := plus(q.KTest, -1, product(e.zt.T(), inverse(t, e.zz), e.zt))
		mean, largest := 0.0, 0.0
		for i := range q.T * q.C {
			v := left.At(i, i) / q.KTest.At(i, i)
			mean += v / float64(q.T*q.C)
			largest = math.Max(largest, v)
		}
		requireNumber(t, "mean residual", r.ResidualMean, mean, 1e-10)
		requireNumber(t, "largest residual", r.ResidualMax, largest, 1e-10)

		x := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), &gp.Options{Mean: gp.LinearGaussian}))(t)
		want := testref.Must(sparse.Compare(t.Context(), x, p, q.Test))(t)
		want.Examples = q.N
		requireComparison(t, r.Sample, want)
		var exact, cov mat.Dense
		require.NoError(t, x.PredictTo(t.Context(), nil, &exact, q.Test))
		require.NoError(t, p.PredictTo(t.Context(), nil, &cov, q.Test))
		var ratios []float64
		for i := range q.T * q.C {
			ratios = append(ratios, cov.At(i, i%q.C)/exact.At(i, i%q.C))
		}
		require.InDelta(t, slices.Min(ratios), want.RatioMin, 1e-12)
		require.InDelta(t, slices.Max(ratios), want.RatioMax, 1e-12)
		require.Positive(t, want.ShiftMax)
		require.LessOrEqual(t, want.ShiftRMS, want.ShiftMax)

		some := testref.Must(p.Report(t.Context(), q.Test, 9, 4))(t)
		require.Equal(t, 9, some.Sample.Examples)
		none := testref.Must(p.Report(t.Context(), q.Test, 0, 0))(t)
		require.Nil(t, none.Sample)
	})
}

func requireComparison(t *testing.T, got, want *sparse.Comparison) {
	t.Helper()
	require.Equal(t, [2]int{want.Examples, want.Tests}, [2]int{got.Examples, got.Tests})
	for _, v := range [][2]float64{{got.ShiftRMS, want.ShiftRMS}, {got.ShiftMax, want.ShiftMax}, {got.RatioMin, want.RatioMin}, {got.RatioMedian, want.RatioMedian}, {got.RatioMax, want.RatioMax}} {
		require.InDelta(t, v[1], v[0], 1e-8*(1+v[1]))
	}
}

// With all examples inducing nothing is left to report.
func TestReportOfExact(t *testing.T) {
	q := problems(t)[5]
	r, err := q.fit(t, q.all(t), linear()).Report(t.Context(), q.Train, 100, 0)
	require.NoError(t, err)
	require.Less(t, r.TraceError, 1e-12)
	require.Less(t, r.ResidualMax, 1e-9)
	require.Less(t, r.Sample.ShiftMax, 1e-7)
	require.InDelta(t, 1, r.Sample.RatioMin, 1e-7)
	require.InDelta(t, 1, r.Sample.RatioMax, 1e-7)
	require.Equal(t, q.N, r.Sample.Examples)
}

func TestReportOfSubset(t *testing.T) {
	q := problems(t)[0]
	z := q.some(t)
	_, s := q.rows(t, z.Rows)
	p := testref.Must(sparse.FitSubset(t.Context(), q.Kernel, q.Train, s, z, nil))(t)
	r := testref.Must(p.Report(t.Context(), q.Test, 5, 0))(t)
	require.True(t, math.IsNaN(r.TraceError))
	require.Nil(t, r.Sample)
	require.Equal(t, 7, r.Examples)
}
