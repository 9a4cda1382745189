package glm

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/glm/integral"
)

// Categorical is the likelihood p(y=c|f) = softmax(f)_c of C classes. A target is one class index, 0 ≤ y < C, as a
// float64.
type Categorical struct{}

var (
	_ Likelihood = Categorical{}
	_ Logistic   = Categorical{}
)

// Name returns "categorical".
func (Categorical) Name() string { return "categorical" }

// Softmax returns true.
func (Categorical) Softmax() bool { return true }

// Targets returns 1: an example has one class index.
func (Categorical) Targets(int) int { return 1 }

// CheckY accepts an integer from 0 to c−1, and returns an error for anything else.
func (k Categorical) CheckY(y []float64, c int) error {
	want := fmt.Sprintf("a class index from 0 to %d", c-1)
	return checkTargets(k, y, c, want, func(v float64) bool {
		return v >= 0 && v < float64(c) && v == math.Trunc(v)
	})
}

// Expand returns log p(y|f) and writes r = 1_y − p, Λ = diag(p) − p pᵀ and R = diag(√p) − p √pᵀ (E4), with p =
// softmax(f) [thesis table 2.1]. For p > ½ it computes 1 − p as the sum of the other probabilities, so that no
// digits cancel.
func (Categorical) Expand(residual, lambda, root, y, f []float64) (logp float64) {
	c := len(f)
	checkSite(residual, lambda, root, y, c, 1)
	k := classIndex(y[0], c)
	p := residual
	if p == nil {
		p = make([]float64, c)
	}
	logRest, top := integral.SoftmaxTo(p, f)
	softmaxCurvature(lambda, root, p)
	if residual != nil {
		// r = 1_y − p
		ry := integral.Complement(p, k)
		for j, v := range p {
			residual[j] = -v
		}
		residual[k] = ry
	}
	// log p = f_y − max f − log Σ e^{f−max f}
	return f[k] - top - logRest
}

// softmaxCurvature writes Λ = diag(p) − p pᵀ and R = diag(√p) − p √pᵀ.
func softmaxCurvature(lambda, root, p []float64) {
	c := len(p)
	if lambda != nil {
		for i, pi := range p {
			for j, pj := range p {
				lambda[i*c+j] = -pi * pj
			}
			lambda[i*c+i] = pi * integral.Complement(p, i)
		}
	}
	if root != nil {
		for j, pj := range p {
			s := math.Sqrt(pj)
			for i, pi := range p {
				root[i*c+j] = -pi * s
			}
			// √p − p√p = √p (1−p)
			root[j*c+j] = s * integral.Complement(p, j)
		}
	}
}

// SlopeTo writes u = df − pᵀdf. Because dp = p∘u and pᵀu = 0, the derivative of Λ is
// diag(p∘u) − (p∘u)pᵀ − p(p∘u)ᵀ = R diag(u) Rᵀ.
func (Categorical) SlopeTo(u, _, f, df []float64) {
	checkSlope(u, f, df)
	integral.SoftmaxTo(u, f)
	mean := 0.0
	for j, p := range u {
		mean += p * df[j]
	}
	for j, d := range df {
		u[j] = d - mean
	}
}

// classIndex returns y as an int. It panics unless y is an integer with 0 ≤ y < c.
func classIndex(y float64, c int) int {
	if !(y >= 0 && y < float64(c)) || y != math.Trunc(y) {
		panic("glm: class index out of range")
	}
	return int(y)
}

// LogProb returns log softmax(f)_y.
func (k Categorical) LogProb(y, f []float64) float64 { return k.Expand(nil, nil, nil, y, f) }

// MeanTo writes the class probabilities softmax(f).
func (Categorical) MeanTo(dst, f []float64) {
	checkDst(dst, f)
	integral.SoftmaxTo(dst, f)
}

// VarianceTo writes p(1−p) for each class, the diagonal of Λ.
func (Categorical) VarianceTo(dst, f []float64) {
	checkDst(dst, f)
	integral.SoftmaxTo(dst, f)
	k := integral.Argmax(f)
	rest := integral.Complement(dst, k)
	for j, p := range dst {
		dst[j] = p * (1 - p) // p ≤ ½ except for class k
		if j == k {
			dst[j] = p * rest
		}
	}
}
