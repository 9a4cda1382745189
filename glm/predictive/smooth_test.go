package predictive

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas/blas64"
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
	return testref.Must(newSoftmaxRow(0, f.RawRowView(0), mat.DenseCopyOf(cov).RawMatrix().Data))(t)
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

// Eigenvectors of the covariance with the opposite sign, or in another order where eigenvalues
// meet, are another way to write the same Gaussian, with the same points.
func TestClassRowDoesNotDependOnEigenvectors(t *testing.T) {
	rng := testref.Rand(22)
	for _, c := range []int{3, 5, 10} {
		mean, cov := testref.Moments(rng, 1, c, 2, 1)
		row := func(change func(r *softmaxRow)) *classRow {
			r := testref.Must(newSoftmaxRow(0, mean.RawRowView(0), append([]float64(nil), cov.RawMatrix().Data...)))(t)
			change(r)
			return newClassRowOf(r, 1)
		}
		want := row(func(*softmaxRow) {})
		for name, change := range map[string]func(r *softmaxRow){
			"sign": func(r *softmaxRow) {
				for j := range c {
					r.a[j*r.rank+1] *= -1
				}
			},
			"order": func(r *softmaxRow) {
				for j := range c {
					a := r.a[j*r.rank:]
					a[0], a[1] = a[1], a[0]
				}
			},
			"rotation": func(r *softmaxRow) {
				for j := range c {
					a := r.a[j*r.rank:]
					a[0], a[1] = 0.6*a[0]+0.8*a[1], 0.8*a[0]-0.6*a[1]
				}
			},
		} {
			require.InDeltaSlice(t, want.a, row(change).a, 1e-13, "C = %d: %s", c, name)
		}
	}
}

// Node by node the sums of (E20) are those of a sheet of nodes, in any ranges.
func TestSheetsAreSumsOfNodes(t *testing.T) {
	for _, c := range []int{4, 5, 10} {
		f, cov := testref.Posterior(uint64(c), 3, c, 4)
		for row := range 3 {
			r, err := newSoftmaxRow(row, f.RawRowView(row), mat.DenseCopyOf(cov.Slice(row*c, (row+1)*c, 0, c)).RawMatrix().Data)
			require.NoError(t, err)
			for _, wants := range []softmaxWants{{}, {entropy: true}, {entropy: true, cross: true}} {
				got, want := newSoftmaxSums(r.base, wants), newSoftmaxSums(r.base, wants)
				sheet := r.sheet(r.m, dense.Of(r.a, c, r.rank))
				require.NotNil(t, sheet)
				for _, part := range [][2]int{{0, 70}, {70, 512}, {512, 700}} {
					sheet.each(1, part[0], part[1], got.addSheet)
				}
				eachPoint(r, r.m, r.rank, 1, func(l, _ []float64) { want.add(l, 1) })
				require.Equal(t, want.weight, got.weight)
				for _, v := range [][2][]float64{{want.mean, got.mean}, {want.square, got.square}, {want.cross, got.cross}, {{want.entropy}, {got.entropy}}} {
					require.InDeltaSlice(t, append([]float64{0}, v[0]...), append([]float64{0}, v[1]...), 1e-10)
				}
			}
			y, rank := row, r.rank-1
			z0 := make([]float64, r.rank)
			r.modeTo(z0, y, 1)
			centre := r.at(z0, 1)
			top := logSoftmaxAt(centre, y)
			sheet, got, want := r.likelihoodSheet(centre, rank, z0, y, top), 0.0, 0.0
			sheet.each(0, 0, 700, func(p sheetPart) {
				for i, v := range dense.Row(p.e, c) {
					got += v * p.inverse[i]
				}
			})
			var slow likelihoodSum
			r.qmcBlocks(centre, rank, 0, 0, 700, func(l, z blas64.General) { slow.add(l, z, z0[:rank], y, top) })
			eachPoint(r, centre, rank, 0, func(l, z []float64) { want += math.Exp(logSoftmaxAt(l, y) - top - dense.Dot(z, z0[:rank])) })
			require.InEpsilon(t, want, got, 1e-12)
			require.InEpsilon(t, want, math.Exp(slow.value()), 1e-12)
		}
	}
}

// eachPoint calls visit with each of 700 points z and the logits there.
func eachPoint(r *softmaxRow, centre []float64, rank, shift int, visit func(l, z []float64)) {
	r.qmcBlocks(centre, rank, shift, 0, 700, func(l, z blas64.General) {
		for i := range l.Rows {
			visit(dense.Row(l, i), dense.Row(z, i))
		}
	})
}

// Logits that may overflow have no sheet, and their sums do not overflow either.
func TestWideLogitsHaveNoSheet(t *testing.T) {
	f, cov := testref.Posterior(3, 1, 6, 1e4)
	r := testref.Must(newSoftmaxRow(0, f.RawRowView(0), mat.DenseCopyOf(cov).RawMatrix().Data))(t)
	require.Nil(t, r.sheet(r.m, dense.Of(r.a, 6, r.rank)))
	m, _ := r.qmcMoments(softmaxWants{entropy: true}, nil, 1e-2, 4096)
	sum := 0.0
	for _, p := range m.mean {
		sum += p
	}
	require.InDelta(t, 1, sum, 1e-9)
}

func BenchmarkQMC(b *testing.B) {
	for _, c := range []int{5, 10} {
		b.Run(fmt.Sprintf("C=%d", c), func(b *testing.B) {
			f, cov := testref.Posterior(1, 1, c, 5)
			for b.Loop() {
				r := testref.Must(newSoftmaxRow(0, f.RawRowView(0), mat.DenseCopyOf(cov).RawMatrix().Data))(b)
				_, _ = r.qmcMoments(softmaxWants{}, nil, 0, 1<<13)
				r.logDensity(1, 0, 1<<13, true)
			}
		})
	}
}
