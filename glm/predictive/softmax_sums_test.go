package predictive

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
)

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
