package counterfactual

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// Rows are test rows whose kernels with the training examples are known, so that the
// predictions of many changes take little each.
type Rows struct {
	m     *Model
	x     *linearize.Batch
	prior []float64  // m, T·C
	raw   *mat.Dense // κ(x,·), T·C×N·C
	mean  *mat.Dense // of all examples, T×C
}

// At prepares the test rows of x, which takes 8·T·C·N·C bytes. It fails with a *gp.MemoryError
// where that is too much.
func (m *Model) At(ctx context.Context, x *linearize.Batch) (*Rows, error) {
	m.outputsOf(x)
	if m.astray != nil {
		return nil, m.astray
	}
	if err := m.checkRows("test rows beside all training examples", x.Len(), 1); err != nil {
		return nil, err
	}
	r := &Rows{m: m, x: x, prior: make([]float64, x.Len()*m.c), raw: new(mat.Dense), mean: new(mat.Dense)}
	m.kernel.MeanTo(r.prior, x)
	if err := m.base.PredictTo(ctx, r.mean, nil, x); err != nil {
		return nil, err
	}
	return r, m.crossTo(ctx, r.raw, x)
}

// checkRows returns a *gp.MemoryError where so many matrices of t test rows against all
// training examples are too large.
func (m *Model) checkRows(what string, t, matrices int) error {
	return gp.CheckMemory(what, gp.TestExamples, t, m.o.Memory, func(t int) int64 {
		return memory.Mul(8*int64(matrices), memory.Mul(memory.Mul(int64(t), int64(m.c)), int64(m.n*m.c)))
	})
}

// Mean returns what the posterior of all examples predicts, T×C; it must not be changed.
func (r *Rows) Mean() *mat.Dense { return r.mean }

// MeanTo writes what the posterior q of changed training data predicts, T×C.
func (r *Rows) MeanTo(ctx context.Context, mean *mat.Dense, q *Posterior) error {
	m := r.m
	if q.p.m != m {
		panic("counterfactual: a posterior of another model")
	}
	t := r.x.Len()
	dense.SizeTo(mean, t, m.c)
	var added *mat.Dense
	if q.p.add != nil && t > 0 {
		added = mat.NewDense(t*m.c, q.p.add.Len()*m.c, nil)
		m.kernel.BlockTo(added, r.x, q.p.add)
	}
	for i, v := range r.prior {
		// m + K_*n α (E6)
		v += dense.Dot(r.raw.RawRowView(i), q.alpha[:m.n*m.c])
		if added != nil {
			v += dense.Dot(added.RawRowView(i), q.alpha[m.n*m.c:])
		}
		mean.Set(i/m.c, i%m.c, v)
	}
	return ctx.Err()
}
