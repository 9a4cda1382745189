package sparse

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
)

// addToSum adds Φα of a part to the sum of a step: α = b − ΛΦᵀw (E13), with FITC
// what makeStep has written.
func (r *refit) addToSum(p *pass, t part, phi blas64.General) {
	lo, hi := t.first*r.b.c, t.first*r.b.c+t.rows
	var alpha []float64
	if r.origin.fitc {
		alpha = p.to.point.alpha[lo:hi]
	} else {
		s, b := p.before.local.Slice(t.first, t.first+t.x.Len()), make([]float64, t.rows)
		s.PseudoTargets(b, r.prior[lo:hi])
		alpha = make([]float64, t.rows)
		s.SubtractLambda(alpha, b, p.to.point.q[lo:hi])
	}
	fblas.Gemv(blas.Trans, 1, phi, dense.Vector(alpha), 1, dense.Vector(p.sum))
}

// sumAgain forms the sum of a step that was interrupted, in a pass of its own.
func (r *refit) sumAgain(ctx context.Context, p *pass) error {
	p.sum = make([]float64, r.b.rank())
	f, quiet := newFeatures(r.b, r.x.Len()), *r.o
	quiet.Progress = func(string, int, int) {}
	return r.b.eachPart(ctx, r.x, &quiet, StageData, func(t part) error {
		phi, err := f.of(ctx, t)
		if err == nil {
			r.addToSum(p, t, phi)
		}
		return err
	})
}

// open returns by how much the raw sums over all training examples (E12) miss
// the mean at the inducing ones, relative to the largest output: φ(x)ᵀ(Φα − w).
func (r *refit) open(last *pass) float64 {
	d := make([]float64, len(last.sum))
	floats.SubTo(d, last.sum, last.post.w)
	return newton.RelativeTo(r.b.largestValue(d), last.to.point.f)
}

// largestValue returns the largest |φ(z)ᵀw| of the inducing examples z. Where
// their features are not known, it is the root of the mean of k_zz times ‖w‖.
func (b *basis) largestValue(w []float64) float64 {
	switch {
	case b.g.Rows == 0:
		// Φ_Z = Lᵀ
		largest := 0.0
		for i := range b.l.N {
			largest = math.Max(largest, math.Abs(floats.Dot(b.l.Data[i*b.l.Stride:][:i+1], w[:i+1])))
		}
		return largest
	case b.own != nil:
		values := make([]float64, b.own.phi.Rows)
		fblas.Gemv(blas.NoTrans, 1, b.own.phi, dense.Vector(w), 0, dense.Vector(values))
		return floats.Norm(values, math.Inf(1))
	}
	return math.Sqrt(b.trace/float64(b.rows())) * floats.Norm(w, 2)
}
