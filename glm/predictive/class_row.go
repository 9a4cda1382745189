package predictive

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/lattice"
	"github.com/funcgp/funcgp/internal/vector"
)

// A classRow is the Gaussian over the logits of one example minus the logit of its class y (E18): f_j − f_y = m_j −
// m_y + (A z)_j with z ~ N(0, I). A is triangular when the classes are ordered by falling means. For full rank it
// is then the Cholesky factor, a smooth function of the covariance. Eigenvectors are not smooth: their signs are
// arbitrary, and they rotate where eigenvalues meet.
type classRow struct {
	softmaxRow
	y    int
	mean []float64 // mean of the logits, less the largest
	z0   []float64 // centre of the integration points
}

// newClassRow returns the classRow of row t. It overwrites cov.
func newClassRow(t, y int, f, cov []float64) (*classRow, error) {
	r, err := newSoftmaxRow(t, f, cov)
	if err != nil {
		return nil, err
	}
	return newClassRowOf(r, y), nil
}

// newClassRowOf returns the classRow of r. It replaces A by a triangular factor with a diagonal ≥ 0.
func newClassRowOf(r *softmaxRow, y int) *classRow {
	w := &classRow{softmaxRow: *r, y: y, mean: r.m, z0: make([]float64, r.rank)}
	w.m = make([]float64, r.c)
	if w.rank == 0 {
		return w
	}
	b, order := r.contrasts(0, y)
	for k := range min(w.rank, w.c-1) {
		if b.Data[order[k+1]*b.Stride+k] < 0 {
			for j := range w.c {
				b.Data[j*b.Stride+k] *= -1
			}
		}
	}
	w.a = b.Data
	return w
}

// centre scales the mean by τ and sets z0, the centre of the integration points: the z that maximizes log p(y|f) −
// ½‖z‖² with f = τ m + r A z.
func (w *classRow) centre(tau, r float64) {
	for j, m := range w.mean {
		w.m[j] = tau * m
	}
	w.modeTo(w.z0, w.y, r)
}

// classNodes are the integration points z0 ± u of one row at a time, with memory for the sums over them.
type classNodes struct {
	*classRow
	pairs   int
	u       blas64.General // pairs×rank
	d, e    []float64      // A u, pairs×C, and exponentials, 2·pairs×C
	weights []float64      // 2·pairs
	mu, ez  []float64      // m_j − m_y and A z0, C
}

func newClassNodes(pairs int) *classNodes {
	return &classNodes{pairs: pairs, weights: make([]float64, 2*pairs)}
}

// take replaces the row by w.
func (n *classNodes) take(w *classRow) {
	n.classRow = w
	if n.u.Data == nil || n.u.Cols != w.rank {
		n.u = dense.New(n.pairs, w.rank)
		lattice.NormalsTo(n.u.Data, w.rank, 0, 0, n.pairs)
	}
	if len(n.mu) != w.c {
		n.d, n.e = make([]float64, n.pairs*w.c), make([]float64, 2*n.pairs*w.c)
		n.mu, n.ez = make([]float64, w.c), make([]float64, w.c)
	}
	for j, m := range w.mean {
		n.mu[j] = m - w.mean[w.y]
	}
	if w.rank > 0 {
		dense.Gemm1(blas.NoTrans, blas.Trans, 1, n.u, dense.Of(w.a, w.c, w.rank), 0, dense.Of(n.d, n.pairs, w.c))
	}
}

// logDensity returns log E softmax(f)_y for f ~ N(τ m, r²AAᵀ). It moves the points to the mode z0. Where the
// trapezoid has no more nodes than points, it takes the trapezoid.
func (n *classNodes) logDensity(tau, r float64) float64 {
	n.centre(tau, r)
	if g := n.grid(r, float64(2*n.pairs)); g != nil && n.rank > 0 && r > 0 {
		centre := n.at(n.z0, r)
		top := logSoftmaxAt(centre, n.y)
		return min(top-0.5*dense.Dot(n.z0, n.z0)+g.logMean(centre, n.z0, n.y, top), 0)
	}
	return min(n.slopes(tau, r).value, 0)
}

// slopes returns log E softmax(f)_y for f ~ N(τ m, r²AAᵀ) and its derivatives, by the points around the present z0:
//
//	p = 1/n Σ_k softmax(τ m + r A(z0 + u_k))_y e^{−z0·u_k − ½|z0|²}.
//
// The derivatives of this sum are averages over the points, weighted by each point's share of the sum.
func (n *classNodes) slopes(tau, r float64) logSlopes {
	c := n.c
	for j := range c {
		n.ez[j] = dense.Dot(n.a[j*n.rank:][:n.rank], n.z0)
	}
	pairs, most := n.pairs, math.Inf(-1)
	if n.rank == 0 { // z has no coordinates
		pairs = 1
		clear(n.d[:c])
	}
	for k := range pairs {
		d, tilt := n.d[k*c:][:c], 0.0
		if n.rank > 0 {
			tilt = dense.Dot(dense.Row(n.u, k), n.z0)
		}
		for side, sign := range [2]float64{1, -1} {
			l := n.e[(2*k+side)*c:][:c]
			top := 0.0
			for j, v := range d {
				l[j] = tau*n.mu[j] + r*(n.ez[j]+sign*v)
				top = max(top, l[j])
			}
			for j := range l {
				l[j] -= top
			}
			g := -top - sign*tilt
			n.weights[2*k+side] = g
			most = max(most, g)
		}
	}
	e, weights := n.e[:2*pairs*c], n.weights[:2*pairs]
	vector.Exp(e, e)
	for k := range weights {
		weights[k] -= most
	}
	vector.Exp(weights, weights)
	var s logSlopes
	total := 0.0
	for k := range pairs {
		d := n.d[k*c:][:c]
		for side, sign := range [2]float64{1, -1} {
			var s0, sm, se, smm, sme, see float64
			for j, p := range e[(2*k+side)*c:][:c] {
				mu, e := n.mu[j], n.ez[j]+sign*d[j]
				s0 += p
				sm += p * mu
				se += p * e
				smm += p * mu * mu
				sme += p * mu * e
				see += p * e * e
			}
			q := weights[2*k+side] / s0
			sm, se = sm/s0, se/s0
			total += q
			// In τ and r, log softmax has the first derivatives −E μ and −E e and the curvature −Cov(μ, e) under
			// softmax.
			s.tau -= q * sm
			s.root -= q * se
			s.tauTau += q * (2*sm*sm - smm/s0)
			s.tauRoot += q * (2*sm*se - sme/s0)
			s.rootRoot += q * (2*se*se - see/s0)
		}
	}
	s.tau, s.root = s.tau/total, s.root/total
	s.tauTau = s.tauTau/total - s.tau*s.tau
	s.tauRoot = s.tauRoot/total - s.tau*s.root
	s.rootRoot = s.rootRoot/total - s.root*s.root
	s.value = most - 0.5*dense.Dot(n.z0, n.z0) + math.Log(total/float64(2*pairs))
	return s
}
