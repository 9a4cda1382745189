package sparse

import (
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// Cross prepares k_*Z A⁻¹ and k_*Z K_ZZ⁻¹ of the examples of x. A tile is
// then a product of the kernel between its examples and the inducing ones
// with both, formed once for the two kinds of terms.
func (p *Posterior) Cross(x *linearize.Batch) (gp.Cross, error) {
	t, c := p.checkInputs(x)
	q := &cross{p: p, rows: t * c}
	if t == 0 {
		return q, nil
	}
	need := func(t int) int64 { return mulCap(32, mulCap(mulCap(int64(t), int64(c)), int64(p.b.rows()))) }
	if budget := gp.MemoryBudget(p.o.MaxMemory); need(t) > budget {
		return nil, &gp.MemoryError{Op: "a cross-kernel", Needed: need(t), Available: budget, LargestN: largest(t, budget, need)}
	}
	phi, err := newFeaturesOf(p.b, q.rows).of(part{x: x, rows: q.rows})
	if err != nil {
		return nil, err
	}
	// k_*Z A⁻¹ = φ_*ᵀA'⁻¹Gᵀ above k_*Z K_ZZ⁻¹ = φ_*ᵀGᵀ
	both := general(2*q.rows, phi.Cols, nil)
	copy(both.Data, phi.Data)
	copy(both.Data[q.rows*both.Stride:], phi.Data)
	p.full(rowsOf(both, 0, q.rows))
	q.weights = mat.DenseCopyOf(dense(p.b.weights(both)).T())
	return q, nil
}

// A cross gives k_*Z A⁻¹ k_Zi (E13), and q_*i for the raw terms.
type cross struct {
	p       *Posterior
	rows    int
	weights *mat.Dense // M·C × 2·T·C: those of the posterior terms, then the raw

	mu   sync.Mutex
	last *linearize.Batch // whose product is kept
	prod *mat.Dense       // n·C × 2·T·C
}

var _ gp.Cross = (*cross)(nil)

// TileTo implements gp.Cross.
func (q *cross) TileTo(dst *mat.Dense, first int, train *linearize.Batch, t gp.Terms) error {
	c, n := q.p.b.c, train.Len()
	if first < 0 || first+n > q.p.x.Len() {
		panic("sparse: range of training examples out of bounds")
	}
	if t != gp.Posterior && t != gp.Raw {
		panic("sparse: unknown terms")
	}
	if q.rows == 0 || n == 0 {
		sizeTo(dst, 0, 0)
		return nil
	}
	sizeTo(dst, q.rows, n*c)
	prod := q.product(train)
	from := 0
	if t == gp.Raw {
		from = q.rows
	}
	dst.Copy(prod.Slice(0, n*c, from, from+q.rows).T())
	return nil
}

// product returns κ(train, Z) times the weights.
func (q *cross) product(train *linearize.Batch) *mat.Dense {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last != train {
		q.prod = mat.NewDense(train.Len()*q.p.b.c, 2*q.rows, nil)
		q.p.b.mulTo(q.prod, train, q.weights)
		q.last = train
	}
	return q.prod
}
