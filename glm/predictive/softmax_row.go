package predictive

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/lattice"
)

// A softmaxRow is the Gaussian over the C logits of one example without their common shift, which changes no
// probability (E20): f = m + A z with z ~ N(0, I), A Aᵀ = HΣH and H = I − 11ᵀ/C.
type softmaxRow struct {
	c, rank int
	m       []float64 // mean, less its largest entry
	base    []float64 // softmax(m)
	a       []float64 // C×rank; columns are √λ times eigenvectors, by falling λ
	lambda  []float64 // eigenvalues λ, rank
	// Directions that are left out of A count to second order. They add restVariance to the variance of each
	// probability (nil: nothing), and move a probability by at most restShift.
	restVariance []float64
	restCross    [][]float64 // vectors u; each adds uuᵀ to the covariance of p
	restMutual   float64     // mutual information in the directions left out, in nats
	restShift    float64
}

const (
	// eigenClasses is the most classes for which all eigenvalues are computed.
	eigenClasses = 128
	// restTrace is the sum of eigenvalues, in squared logits, below which they are dropped for more classes.
	// Dropping them moves a probability by less than 1e-9.
	restTrace = 1e-9
)

// newSoftmaxRow returns the softmaxRow of row t. It overwrites cov.
func newSoftmaxRow(t int, f, cov []float64) (*softmaxRow, error) {
	c := len(f)
	r := &softmaxRow{c: c, m: make([]float64, c), base: make([]float64, c)}
	top := f[integral.Argmax(f)]
	for j, v := range f {
		r.m[j] = v - top
	}
	integral.SoftmaxTo(r.base, r.m)
	largest := 0.0
	for j := range c {
		largest = max(largest, cov[j*c+j])
	}
	if largest == 0 {
		return r, nil
	}
	for i := range cov {
		cov[i] /= largest // so that sums stay finite
	}
	least := centre(cov, c)
	if c <= eigenClasses {
		if err := r.eigen(t, cov, largest); err != nil {
			return nil, err
		}
		return r, nil
	}
	if least*largest < -integral.PSDTol*(1+largest) {
		return nil, &ValueError{What: "eigenvalue", Row: t, Value: least * largest}
	}
	return r, r.leading(t, cov, largest)
}

// centre overwrites cov with H cov H and returns its least diagonal element.
func centre(cov []float64, c int) (least float64) {
	mean, total, n := make([]float64, c), 0.0, float64(c)
	for i := range c {
		mean[i] = floats.Sum(cov[i*c:(i+1)*c]) / n
		total += mean[i] / n
	}
	for i := range c {
		for j := range c {
			cov[i*c+j] += total - mean[i] - mean[j]
		}
		least = min(least, cov[i*c+i])
	}
	return least
}

// eigen sets A from all eigenvectors of scale·cov.
func (r *softmaxRow) eigen(t int, cov []float64, scale float64) error {
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(r.c, cov), true) {
		return &glm.NotPDError{N: r.c, Row: t}
	}
	values := eig.Values(nil)
	if w := values[0] * scale; w < -integral.PSDTol*(1+scale) {
		return &ValueError{What: "eigenvalue", Row: t, Value: w}
	}
	var v mat.Dense
	eig.VectorsTo(&v)
	r.columns(values, &v, scale)
	return nil
}

// rankRounding times C is the share of the largest eigenvalue below which an eigenvalue counts as a rounding error.
const rankRounding = 0x1p-50

// columns sets A to the columns of v times √(scale·values), from the last to the first, without those whose value
// is a rounding error.
func (r *softmaxRow) columns(values []float64, v *mat.Dense, scale float64) {
	n := len(values)
	for r.rank < n && values[n-1-r.rank] > rankRounding*float64(r.c)*values[n-1] {
		r.rank++
	}
	r.a, r.lambda = make([]float64, r.c*r.rank), make([]float64, r.rank)
	for k := range r.rank {
		w := values[n-1-k]
		r.lambda[k] = w * scale
		root := math.Sqrt(w) * math.Sqrt(scale)
		for i := range r.c {
			r.a[i*r.rank+k] = root * v.At(i, n-1-k)
		}
	}
}

// leading sets A from leading eigenvectors: those of LLᵀ, where L is a pivoted Cholesky factor with at most
// lattice.MaxDims columns, by the eigenvectors of the small matrix LᵀL. The rest E = HΣH − LLᵀ is small or has many
// small eigenvalues. To second order it multiplies E softmax(f)_c by 1 + ½E_cc − (Ep)_c, up to normalization.
// leading applies this as a shift of the mean.
func (r *softmaxRow) leading(t int, cov []float64, scale float64) error {
	c := r.c
	p := integral.NewPivotedTo(cov, c, min(c, lattice.MaxDims), restTrace/scale)
	if p.Rank == 0 {
		return nil
	}
	l := dense.Cols(dense.Of(p.L, c, p.Stride), 0, p.Rank)
	gram := dense.New(p.Rank, p.Rank)
	dense.Gemm1(blas.Trans, blas.NoTrans, 1, l, l, 0, gram)
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(p.Rank, gram.Data), true) {
		return &glm.NotPDError{N: c, Row: t}
	}
	values := eig.Values(nil)
	var v, lv mat.Dense
	eig.VectorsTo(&v)
	lv.Mul(dense.View(l), &v) // L v has norm √λ
	for k, w := range values {
		if w > 0 {
			for i := range c {
				lv.Set(i, k, lv.At(i, k)/math.Sqrt(w))
			}
		}
	}
	r.columns(values, &lv, scale)
	if floats.Sum(p.Left)*scale > restTrace {
		c, base := r.c, r.base
		lp := make([]float64, p.Rank) // Lᵀp
		for i, v := range base {
			dense.Axpy(lp, v, p.Row(i))
		}
		ep, pep := make([]float64, c), 0.0
		for i, v := range base {
			ep[i] = dense.Dot(cov[i*c:(i+1)*c], base) - dense.Dot(p.Row(i), lp)
			pep += v * ep[i]
		}
		r.restVariance = make([]float64, c)
		before := append([]float64(nil), base...)
		for i, v := range base {
			// p²(e − p)ᵀE(e − p)
			r.restVariance[i] = max(v*v*scale*(p.Left[i]-2*ep[i]+pep), 0)
			r.m[i] += scale * (p.Left[i]/2 - ep[i])
		}
		integral.SoftmaxTo(r.base, r.m)
		for i, v := range r.base {
			r.restShift = max(r.restShift, math.Abs(v-before[i]))
		}
	}
	return nil
}

// reach returns the largest difference of two entries of column k of A: how much z_k moves log-odds.
func (r *softmaxRow) reach(k int) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range r.c {
		v := r.a[i*r.rank+k]
		lo, hi = min(lo, v), max(hi, v)
	}
	return hi - lo
}

// rankWithout returns the number of leading columns of A that remain after dropping the last ones whose eigenvalues
// add up to at most tail.
func (r *softmaxRow) rankWithout(tail float64) int {
	n := r.rank
	for n > 0 && tail >= r.lambda[n-1] {
		tail -= r.lambda[n-1]
		n--
	}
	return n
}

// modeTo moves z from its present value to the maximum of log softmax(m + root·A z)_y − ½|z|² by Newton's method,
// with conjugate gradients for its steps. Where logits are so wide that the objective is nearly piecewise linear, a
// temperature first flattens it. The integrals that use z are right for any z; a z nearer to the maximum gives a
// smaller error.
func (r *softmaxRow) modeTo(z []float64, y int, root float64) {
	if r.rank == 0 {
		return
	}
	s := &modeSearch{r: r, y: y, root: root, l: make([]float64, r.c), p: make([]float64, r.c), v: make([]float64, r.c),
		grad: make([]float64, r.rank), step: make([]float64, r.rank), try: make([]float64, r.rank),
		residual: make([]float64, r.rank), direction: make([]float64, r.rank), product: make([]float64, r.rank)}
	for s.temperature = max(1, root*r.reach(0)/4); s.temperature > 1; s.temperature = max(1, s.temperature/4) {
		s.newton(z, 2)
	}
	s.newton(z, 20)
}

type modeSearch struct {
	r                            *softmaxRow
	y                            int
	root, temperature            float64
	l, p, v                      []float64 // C
	grad, step, try              []float64 // rank
	residual, direction, product []float64
}

// value returns the objective at z and sets l.
func (s *modeSearch) value(z []float64) float64 {
	r := s.r
	for j, m := range r.m {
		s.l[j] = (m + s.root*dense.Dot(r.a[j*r.rank:(j+1)*r.rank], z)) / s.temperature
	}
	return s.temperature*logSoftmaxAt(s.l, s.y) - 0.5*dense.Dot(z, z)
}

// newton takes at most steps Newton steps.
func (s *modeSearch) newton(z []float64, steps int) {
	r := s.r
	value := s.value(z)
	for range steps {
		integral.SoftmaxTo(s.p, s.l)
		// ∇ = √s Aᵀ(e_y − p) − z
		for k := range s.grad {
			s.grad[k] = -z[k]
		}
		for j, p := range s.p {
			if j == s.y {
				p--
			}
			dense.Axpy(s.grad, -s.root*p, r.a[j*r.rank:(j+1)*r.rank])
		}
		s.solve()
		size := 1.0
		for ; ; size /= 2 {
			for k := range s.try {
				s.try[k] = z[k] + size*s.step[k]
			}
			if v := s.value(s.try); v >= value {
				value = v
				copy(z, s.try)
				break
			}
			if size < 1e-3 {
				s.value(z)
				return
			}
		}
		if moved := size * size * dense.Dot(s.step, s.step); moved < 1e-8 {
			return
		}
	}
}

// solve sets step to the Newton step (I + s AᵀΛA/T)⁻¹ ∇ by conjugate gradients.
func (s *modeSearch) solve() {
	clear(s.step)
	copy(s.residual, s.grad)
	copy(s.direction, s.grad)
	rr := dense.Dot(s.residual, s.residual)
	stop := 1e-8 * rr
	for range min(s.r.rank, 30) {
		if rr <= stop {
			return
		}
		// Set product to (I + s AᵀΛA/T) direction.
		r, mean := s.r, 0.0
		for j, p := range s.p {
			s.v[j] = dense.Dot(r.a[j*r.rank:(j+1)*r.rank], s.direction)
			mean += p * s.v[j]
		}
		copy(s.product, s.direction)
		for j, p := range s.p {
			// Λ v = p (v − pᵀv)
			if p > 0 {
				dense.Axpy(s.product, s.root*s.root/s.temperature*p*(s.v[j]-mean), r.a[j*r.rank:(j+1)*r.rank])
			}
		}
		alpha := rr / dense.Dot(s.direction, s.product)
		dense.Axpy(s.step, alpha, s.direction)
		dense.Axpy(s.residual, -alpha, s.product)
		before := rr
		rr = dense.Dot(s.residual, s.residual)
		for k, v := range s.residual {
			s.direction[k] = v + rr/before*s.direction[k]
		}
	}
}

// secondOrder is the most that the eigenvalues of the directions cut by cut may add up to. The error is of the
// order of its square.
const secondOrder = 1e-5

// cut drops the directions with the smallest eigenvalues from A and accounts for them to second order. With v = a −
// pᵀa for a column a, the shift of the mean is ½a² − a pᵀa, the variance of p is p²v², and the mutual information
// is ½ pᵀv².
func (r *softmaxRow) cut() {
	to := r.rankWithout(secondOrder)
	if to == r.rank {
		return
	}
	if r.restVariance == nil {
		r.restVariance = make([]float64, r.c)
	}
	a := make([]float64, r.c*to)
	for j := range r.c {
		copy(a[j*to:(j+1)*to], r.a[j*r.rank:])
	}
	for k := to; k < r.rank; k++ {
		mean, u := 0.0, make([]float64, r.c)
		for j, p := range r.base {
			mean += p * r.a[j*r.rank+k]
		}
		for j, p := range r.base {
			v := r.a[j*r.rank+k]
			u[j] = p * (v - mean)
			r.m[j] += v * (v/2 - mean)
			r.restVariance[j] += u[j] * u[j]
			r.restMutual += u[j] * (v - mean) / 2
		}
		r.restCross = append(r.restCross, u)
	}
	r.a, r.lambda, r.rank = a, r.lambda[:to], to
	integral.SoftmaxTo(r.base, r.m)
}
