package predictive

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
)

// wideRow is a row of c logits with wide covariances of every direction.
func wideRow(t *testing.T, seed uint64, c int, scale float64) *softmaxRow {
	t.Helper()
	f, cov := testref.Posterior(seed, 1, c, scale)
	// Independent variances keep the eigenvalues together.
	variance := mat.Trace(cov.Slice(0, c, 0, c)) / float64(c)
	for j := range c {
		cov.Set(j, j, cov.At(j, j)+variance/2)
	}
	r := testref.Must(newSoftmaxRow(0, f.RawRowView(0), mat.DenseCopyOf(cov).RawMatrix().Data))(t)
	return r
}

// Noise and contrasts have the covariance of the contrasts of the logits (E20).
func TestContrasts(t *testing.T) {
	for _, c := range []int{3, 5, 10} {
		r := wideRow(t, uint64(c), c, 20)
		d := r.lambda[r.rank-1] * .9
		factor, order := r.contrasts(d, integral.Argmax(r.m))
		require.Equal(t, integral.Argmax(r.m), order[0])
		b, a := dense.View(factor), dense.View(dense.Of(r.a, c, r.rank))
		var got, want mat.Dense
		got.Mul(b, b.T())
		want.Mul(a, a.T())
		top := integral.Argmax(r.m)
		for i := range c {
			for j := range c {
				// of f_i − f_top and f_j − f_top, d of each being independent
				w := want.At(i, j) - want.At(i, top) - want.At(top, j) + want.At(top, top)
				g := got.At(i, j) - got.At(i, top) - got.At(top, j) + got.At(top, top)
				if i != top && j != top {
					g += d
				}
				if i == j && i != top {
					g += d
				}
				require.InDelta(t, w, g, 1e-10*(1+math.Abs(w)))
			}
		}
	}
}

// Under noise few points agree with 65,536 of softmax itself, to the error of either.
func TestSmoothRowsAgreeWithPoints(t *testing.T) {
	for _, scale := range []float64{10, 100, 3000} {
		for seed := range uint64(3) {
			r := wideRow(t, seed, 6, scale)
			least, nodes := r.lambda[4], 1<<16/smoothCost(r.lambda[0]/r.lambda[4], r.lambda[4])
			require.GreaterOrEqual(t, least, 4.)
			require.NotNil(t, r.smooth(softmaxWants{}, 1<<16))
			require.Nil(t, r.smooth(softmaxWants{entropy: true}, 1<<16))
			require.Nil(t, r.smooth(softmaxWants{}, 1<<14))
			got, _ := r.qmcMoments(softmaxWants{}, nil, 0, 1<<16)
			require.Equal(t, nodes, got.nodes)
			want, _ := r.qmcMoments(softmaxWants{entropy: true}, nil, 0, 1<<16)
			require.Equal(t, 1<<16, want.nodes)
			require.InDeltaSlice(t, want.mean, got.mean, 1e-2)
			require.InDeltaSlice(t, want.variance, got.variance, 1e-2)
			sum := 0.0
			for _, p := range got.mean {
				sum += p
			}
			require.InDelta(t, 1, sum, 1e-5)
		}
	}
}

// Where one direction hardly varies there is no noise to take apart.
func TestNarrowRowsAreNotSmooth(t *testing.T) {
	f, cov := testref.Posterior(2, 1, 6, 1)
	cov.Scale(1e-2, cov)
	r := testref.Must(newSoftmaxRow(0, f.RawRowView(0), mat.DenseCopyOf(cov).RawMatrix().Data))(t)
	require.Nil(t, r.smooth(softmaxWants{}, 1<<16))
}
