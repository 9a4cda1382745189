package variational

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
)

// A numericExpectation integrates any likelihood at fixed nodes: for one output a
// trapezoid over ±12 standard deviations, otherwise quasi–Monte Carlo.
type numericExpectation struct {
	lik                  gp.Likelihood
	normals              []float64 // of quasi–Monte Carlo, points×C; nil for one output
	f, root, res, lambda []float64
}

func newNumericExpectation(lik gp.Likelihood, c int, normals []float64) *numericExpectation {
	return &numericExpectation{lik, normals, make([]float64, c), make([]float64, c*c), make([]float64, c), make([]float64, c*c)}
}

func (e *numericExpectation) expectTo(residual, lambda []float64, _ int, y, mean, cov []float64) float64 {
	clear(residual)
	clear(lambda)
	logp := 0.0
	add := func(w float64) {
		logp += w * e.lik.Expand(e.res, e.lambda, nil, y, e.f)
		for j := range residual {
			residual[j] += w * e.res[j]
		}
		for j := range lambda {
			lambda[j] += w * e.lambda[j]
		}
	}
	if c := len(mean); c > 1 {
		choleskyTo(e.root, cov, c)
		for z := range slices.Chunk(e.normals, c) {
			for a, m := range mean {
				e.f[a] = m + floats.Dot(e.root[a*c:][:a+1], z[:a+1])
			}
			add(float64(c) / float64(len(e.normals)))
		}
		return logp
	}
	sd := math.Sqrt(cov[0])
	if sd == 0 {
		copy(e.f, mean)
		add(1)
		return logp
	}
	step := min(0.06, 0.4/sd)
	n := int(math.Ceil(12 / step))
	for k := -n; k <= n; k++ {
		z := float64(k) * step
		e.f[0] = mean[0] + sd*z
		add(step * math.Exp(-0.5*z*z) / math.Sqrt(2*math.Pi))
	}
	return logp
}

// choleskyTo writes the lower triangular root of a covariance, c×c, of which it reads
// the lower triangle. A direction without variance gets a column of zeros. root and cov
// may be the same.
func choleskyTo(root, cov []float64, c int) {
	copy(root, cov)
	for b := range c {
		clear(root[b*c+b+1 : (b+1)*c]) // above the diagonal
		pivot, full := root[b*c+b], root[b*c+b]
		for _, v := range root[b*c : b*c+b] {
			pivot -= v * v
		}
		if !(pivot > 1e-14*full) {
			pivot = 0
		}
		d := math.Sqrt(pivot)
		root[b*c+b] = d
		for a := b + 1; a < c; a++ {
			v := root[a*c+b]
			for t := range b {
				v -= root[a*c+t] * root[b*c+t]
			}
			if root[a*c+b] = 0; d > 0 {
				root[a*c+b] = v / d
			}
		}
	}
}
