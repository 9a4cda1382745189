package variational

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/lattice"
)

// The expectations of a softmax of C classes are over the C − 1 differences
// g_c = f_c − f_y of the other logits and that of the target, of which
// log p_y = −log(1 + Σ e^g). Two classes have one difference, and its integrals are
// those of σ. With three or four, a tensor trapezoid is used where it has at most
// gridShare nodes per point of quasi–Monte Carlo, which serves the rest.
//
// The trapezoid along column k of the root A of the covariance of g has an error of
// about 5e-12: two logits move apart by reach·z, their exponentials cancel nowhere in
// |Im z| < π/reach, and a step of h = .76/reach leaves e^{−2π·π/(reach·h)} = e^{−26}.
// The Gaussian itself has that error at a step of .87.
const (
	gridDims   = 3
	gridShare  = 8
	gridRadius = 7.2 // leaves out a mass of 3e-11
	gridStep   = 0.87
	gridReach  = 0.76
)

// softmaxNodes has the integration points that the expectations of all workers share.
type softmaxNodes struct {
	points  int
	normals []float64 // points×(C−1)
	qmc     []bool    // whether an example is integrated by quasi–Monte Carlo, from then on always
}

// matchedNormals returns points of quasi–Monte Carlo, n×dims, whose mean is exactly 0
// and whose covariance is exactly the identity. They integrate quadratic functions
// without error.
func matchedNormals(n, dims int) ([]float64, error) {
	if dims > lattice.MaxDims {
		return nil, fmt.Errorf("variational: %d outputs to integrate over; quasi–Monte Carlo has at most %d dimensions", dims, lattice.MaxDims)
	}
	z := make([]float64, n*dims)
	lattice.NormalsTo(z, dims, 0, 0, n)
	if n <= dims {
		return z, nil
	}
	m := mat.NewDense(n, dims, z)
	for j := range dims {
		mean := mat.Sum(m.ColView(j)) / float64(n)
		for i := range n {
			z[i*dims+j] -= mean
		}
	}
	var cov mat.SymDense
	cov.SymOuterK(1/float64(n), m.T())
	var chol mat.Cholesky
	if !chol.Factorize(&cov) {
		return z, nil
	}
	// z ← U⁻ᵀ z, where the covariance is UᵀU
	var out mat.Dense
	var u mat.TriDense
	chol.UTo(&u)
	if err := out.Solve(u.T(), m.T()); err == nil {
		m.Copy(out.T())
	}
	return z, nil
}

// A softmaxExpectation has the scratch of one worker.
type softmaxExpectation struct {
	*softmaxNodes
	c, k       int
	other      []int     // classes that are not the target
	mean, root []float64 // mean of g, k, and Cholesky root of its covariance, k×k
	steps      []float64 // steps of the trapezoid
	levels     []float64 // g at each level of the trapezoid, (k+1)×k
	g, p       []float64
	sum        softmaxSums
}

// softmaxSums are weighted sums over nodes.
type softmaxSums struct {
	weight, log float64
	rest        float64   // E(1 − p_y)
	p           []float64 // E p of the other classes
	cross       []float64 // E p_a p_b of other classes a < b, k×k
	target      []float64 // E p_a p_y
}

func newSoftmaxExpectation(s *softmaxNodes, c int) *softmaxExpectation {
	k := c - 1
	return &softmaxExpectation{softmaxNodes: s, c: c, k: k, other: make([]int, k), mean: make([]float64, k), root: make([]float64, k*k),
		steps: make([]float64, k), levels: make([]float64, (k+1)*k), g: make([]float64, k), p: make([]float64, k),
		sum: softmaxSums{p: make([]float64, k), cross: make([]float64, k*k), target: make([]float64, k)}}
}

func (s *softmaxExpectation) expectTo(residual, lambda []float64, i int, y, mean, cov []float64) float64 {
	if s.k == 0 { // one class has probability one
		clear(residual)
		clear(lambda)
		return 0
	}
	target := int(y[0])
	s.differences(target, mean, cov)
	s.sum.clear()
	switch {
	case s.k == 1:
		s.sum.two(meanLogistic(-s.mean[0], s.root[0]*s.root[0]))
	case !s.grid(i):
		s.lattice()
	}
	s.sum.finish()
	if residual != nil {
		residual[target] = s.sum.rest
		for a, c := range s.other {
			residual[c] = -s.sum.p[a]
		}
	}
	if lambda != nil {
		s.lambdaTo(lambda, target)
	}
	return s.sum.log
}

// differences sets the mean of g and the Cholesky root A of its covariance.
func (s *softmaxExpectation) differences(target int, mean, cov []float64) {
	c, k, n := s.c, s.k, 0
	for j := range c {
		if j != target {
			s.other[n] = j
			n++
		}
	}
	y := target * c
	for a, i := range s.other {
		s.mean[a] = mean[i] - mean[target]
		for b, j := range s.other[:a+1] {
			s.root[a*k+b] = cov[i*c+j] - cov[i*c+target] - cov[y+j] + cov[y+target]
		}
	}
	choleskyTo(s.root, s.root, k)
}

// lambdaTo writes E[diag(p) − ppᵀ]. Its rows add up to zero exactly.
func (s *softmaxExpectation) lambdaTo(lambda []float64, target int) {
	clear(lambda)
	c := s.c
	set := func(i, j int, v float64) {
		lambda[i*c+j], lambda[j*c+i] = -v, -v
		lambda[i*c+i] += v
		lambda[j*c+j] += v
	}
	for a, i := range s.other {
		set(i, target, s.sum.target[a])
		for b := a + 1; b < s.k; b++ {
			set(i, s.other[b], s.sum.cross[a*s.k+b])
		}
	}
}

// lattice sums over the points of quasi–Monte Carlo.
func (s *softmaxExpectation) lattice() {
	for n := range s.points {
		z := s.normals[n*s.k:][:s.k]
		for a := range s.g {
			v := s.mean[a]
			for b, l := range s.root[a*s.k:][:a+1] {
				v += l * z[b]
			}
			s.g[a] = v
		}
		s.add(1)
	}
}

// grid sums over the trapezoid, or returns false where that has too many nodes.
func (s *softmaxExpectation) grid(i int) bool {
	if s.k > gridDims || s.qmc[i] {
		return false
	}
	nodes := 1.0
	for b := range s.k {
		lo, hi := 0.0, 0.0 // the target's logit does not move
		for a := range s.k {
			lo, hi = min(lo, s.root[a*s.k+b]), max(hi, s.root[a*s.k+b])
		}
		s.steps[b] = min(gridStep, gridReach/(hi-lo))
		if hi > lo {
			nodes *= 2*gridRadius/s.steps[b] + 1
		}
	}
	if nodes > float64(gridShare*s.points) {
		s.qmc[i] = true
		return false
	}
	copy(s.levels, s.mean)
	s.level(0, gridRadius*gridRadius, 1)
	return true
}

// level sums over the columns from b on. left is the largest |z|² that these columns may have.
func (s *softmaxExpectation) level(b int, left, w float64) {
	from := s.levels[b*s.k:][:s.k]
	if b == s.k {
		copy(s.g, from)
		s.add(w)
		return
	}
	to := s.levels[(b+1)*s.k:][:s.k]
	n := int(math.Sqrt(left) / s.steps[b])
	if s.root[b*s.k+b] == 0 {
		n = 0
	}
	for t := -n; t <= n; t++ {
		z := float64(t) * s.steps[b]
		for a, v := range from {
			to[a] = v + z*s.root[a*s.k+b]
		}
		s.level(b+1, left-z*z, w*math.Exp(-0.5*z*z))
	}
}

// add adds the node g with weight w.
func (s *softmaxExpectation) add(w float64) {
	top := 0.0
	for _, v := range s.g {
		top = max(top, v)
	}
	rest, y := 0.0, math.Exp(-top)
	for a, v := range s.g {
		s.p[a] = math.Exp(v - top)
		rest += s.p[a]
	}
	total := y + rest
	// log p_y = −log(1 + Σ e^g)
	if top == 0 {
		s.sum.log -= w * math.Log1p(rest)
	} else {
		s.sum.log -= w * (top + math.Log(total))
	}
	inverse := 1 / total
	y *= inverse
	s.sum.weight += w
	s.sum.rest += w * rest * inverse
	for a := range s.p {
		s.p[a] *= inverse
	}
	for a, v := range s.p {
		wv := w * v
		s.sum.p[a] += wv
		s.sum.target[a] += wv * y
		row := s.sum.cross[a*s.k:][:s.k]
		for b := a + 1; b < len(row); b++ {
			row[b] += wv * s.p[b]
		}
	}
}

func (s *softmaxSums) clear() {
	s.weight, s.log, s.rest = 0, 0, 0
	clear(s.p)
	clear(s.cross)
	clear(s.target)
}

// two sets the sums of two classes.
func (s *softmaxSums) two(l logistic) {
	s.weight, s.log, s.rest, s.p[0], s.target[0] = 1, l.log, l.rest, l.rest, l.slope
}

// finish divides by the sum of weights.
func (s *softmaxSums) finish() {
	w := 1 / s.weight
	s.log *= w
	s.rest *= w
	for _, v := range [][]float64{s.p, s.cross, s.target} {
		for i := range v {
			v[i] *= w
		}
	}
}
