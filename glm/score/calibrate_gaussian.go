package score

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/dense"
)

// whitened holds the rows of a Gaussian likelihood in coordinates in which noise and covariance are diagonal. With
// the noise precision R Rᵀ, the eigenvalues v and eigenvectors U of Rᵀ cov R, and u = UᵀRᵀ(y − mean), the
// covariance s·cov + t·noise has the diagonal s·v + t.
type whitened struct {
	n, c    int
	v, u    []float64 // n·c
	logNorm float64   // ½ log det 2π noise
	weight  func(i int) float64
}

func whiten(ctx context.Context, g *glm.Gaussian, rows *scoredRows) (*whitened, error) {
	n, c := len(rows.kept), rows.c
	root, logNorm := g.Whitening(c)
	w := &whitened{n: n, c: c, v: make([]float64, n*c), u: make([]float64, n*c), logNorm: logNorm, weight: rows.weight}
	return w, rows.each(ctx, func(lo, _ int, y, mean, cov *mat.Dense) error {
		return predictive.EachRow(ctx, mean, cov, func(t int, f, block []float64) error {
			at := (lo + t) * c
			// Write the eigenvalues v and the coordinates u of row t.
			v := w.v[at : at+c]
			u := w.u[at : at+c]
			cov := dense.View(dense.Of(block, c, c))
			y := y.RawRowView(t)
			c := len(f)
			d := make([]float64, c)
			floats.SubTo(d, y, f)
			if c == 1 {
				r := root.At(0, 0)
				v[0], u[0] = r*cov.At(0, 0)*r, r*d[0]
				return nil
			}
			var half, full mat.Dense
			half.Mul(root.T(), cov)
			full.Mul(&half, root)
			var eig mat.EigenSym
			if !eig.Factorize(mat.NewSymDense(c, full.RawMatrix().Data), true) {
				return &glm.NotPDError{N: c, Row: t}
			}
			eig.Values(v)
			if v[0] < -integral.PSDTol*(1+v[c-1]) {
				return &glm.NotPDError{N: c, Row: t}
			}
			for j := range v {
				v[j] = max(v[j], 0)
			}
			var vectors mat.Dense
			eig.VectorsTo(&vectors)
			var white mat.VecDense
			white.MulVec(root.T(), mat.NewVecDense(c, d))
			mat.NewVecDense(c, u).MulVec(vectors.T(), &white)
			return nil
		})
	})
}

// Values implements surface.
func (w *whitened) Values(_ context.Context, at []predictive.ScalePoint, every int) ([]float64, error) {
	to := make([]float64, len(at))
	for k, p := range at {
		sum, rows := 0.0, 0.0
		for i := 0; i < w.n; i += every {
			sum += w.weight(i) * w.slopes(i, p).Value
			rows += w.weight(i)
		}
		to[k] = sum / rows
	}
	return to, nil
}

// Expand implements surface.
func (w *whitened) Expand(_ context.Context, at predictive.ScalePoint) (predictive.ScaleSlopes, error) {
	var sum predictive.ScaleSlopes
	rows := 0.0
	for i := range w.n {
		sum.AddScaled(w.weight(i), w.slopes(i, at))
		rows += w.weight(i)
	}
	return sum.Over(rows), nil
}

// Settle implements surface.
func (w *whitened) Settle(context.Context, predictive.ScalePoint) (bool, error) { return false, nil }

// slopes returns −log N(y; mean, s·cov + t·noise) of row i and its derivatives in log s and log t.
func (w *whitened) slopes(i int, at predictive.ScalePoint) predictive.ScaleSlopes {
	d := predictive.ScaleSlopes{Value: w.logNorm}
	t := math.Exp(at.Other)
	for k := i * w.c; k < (i+1)*w.c; k++ {
		sv := math.Exp(at.Scale) * w.v[k]
		total := t + sv
		// the terms ½ log total + ½ u²/total; a and b are their two derivatives in total
		q := w.u[k] * w.u[k] / total
		a, b := (1-q)/(2*total), (2*q-1)/(2*total*total)
		d.Value += (math.Log(total) + q) / 2
		d.Scale += a * sv
		d.Other += a * t
		d.ScaleScale += b*sv*sv + a*sv
		d.Both += b * sv * t
		d.OtherOther += b*t*t + a*t
	}
	return d
}
