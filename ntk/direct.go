package ntk

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/vector"
)

// direct is the term v X_a X_bᵀ for columns X that are in memory and have the same
// variance v: columns of a Full block, or those of a bias.
type direct struct {
	a, b     *mat.Dense
	at, w    int // columns [at, at+w)
	ca, cb   int
	variance float64
}

// columns returns the columns of a's examples i and of b's examples j.
func (t *direct) columns(i, j examples) (x, y blas64.General) {
	return dense.Cols(i.of(t.a, t.ca), t.at, t.at+t.w), dense.Cols(j.of(t.b, t.cb), t.at, t.at+t.w)
}

// addGrams adds v X_n X_nᵀ of each example's c rows X_n of x to dst, on and above the diagonal.
func addGrams(dst, x blas64.General, c int, v float64) {
	for i := range x.Rows {
		for d := i % c; d < c; d++ {
			dst.Data[i*dst.Stride+d] += v * vector.Dot(dense.Row(x, i), dense.Row(x, i-i%c+d))
		}
	}
}
