package counterfactual

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// Rows are test rows whose kernels with the training examples are known, so that the
// predictions of many changes take little each.
type Rows struct {
	m         *Model
	x         *linearize.Batch
	prior     []float64  // m, T·C
	raw, post *mat.Dense // κ(x,·) and C(x,·), T·C×N·C
	mean      *mat.Dense // of all examples, T×C
}

// At prepares the test rows of x: one gp.Cross and 16·T·C·N·C bytes
// beside it. It fails with a *gp.MemoryError where that is too much.
func (m *Model) At(ctx context.Context, x *linearize.Batch) (*Rows, error) {
	m.outputsOf(x)
	if m.astray != nil {
		return nil, m.astray
	}
	if err := m.checkRows("test rows beside all training examples", x.Len(), 4); err != nil {
		return nil, err
	}
	r := &Rows{m: m, x: x, prior: make([]float64, x.Len()*m.c), raw: new(mat.Dense), post: new(mat.Dense), mean: new(mat.Dense)}
	m.kernel.MeanTo(r.prior, x)
	if err := m.base.PredictTo(ctx, r.mean, nil, x); err != nil {
		return nil, err
	}
	cross, err := m.base.Cross(ctx, x)
	if err != nil {
		return nil, err
	}
	rows := x.Len() * m.c
	if rows == 0 {
		return r, nil
	}
	r.raw.ReuseAs(rows, m.n*m.c)
	r.post.ReuseAs(rows, m.n*m.c)
	return r, m.base.Data().Batches(ctx, func(first int, b *linearize.Batch) error {
		lo, hi := first*m.c, (first+b.Len())*m.c
		if err := cross.TileTo(ctx, r.raw.Slice(0, rows, lo, hi).(*mat.Dense), first, b, gp.Raw); err != nil {
			return err
		}
		return cross.TileTo(ctx, r.post.Slice(0, rows, lo, hi).(*mat.Dense), first, b, gp.Posterior)
	})
}

// checkRows returns a *gp.MemoryError where so many matrices of t test rows against all
// training examples are too large.
func (m *Model) checkRows(what string, t, matrices int) error {
	return gp.CheckMemory(what, gp.TestExamples, t, m.o.MaxMemory, func(t int) int64 {
		return memory.Mul(8*int64(matrices), memory.Mul(memory.Mul(int64(t), int64(m.c)), int64(m.n*m.c)))
	})
}

// Mean returns what the posterior of all examples predicts, T×C; it must not be changed.
func (r *Rows) Mean() *mat.Dense { return r.mean }

// WithoutTo writes the predictions without the training examples at these rows, which
// ascend, T×C, to first order: f − C(x,S)(I − Λ_S C_SS)⁻¹r_S. It is what PredictTo of
// Model.Step says, for less work: rows of the inverse of the factor.
func (r *Rows) WithoutTo(ctx context.Context, mean *mat.Dense, rows []int) error {
	m := r.m
	var q mat.Dense
	if err := m.base.JointRemovalTo(ctx, &q, rows); err != nil {
		return err
	}
	dense.SizeTo(mean, r.x.Len(), m.c)
	mean.Copy(r.mean)
	for i := range r.x.Len() * m.c {
		to := mean.RawRowView(i / m.c)
		for k, at := range rows {
			// −C(x,S)(I − Λ_S C_SS)⁻¹r_S (E15)
			to[i%m.c] -= floats.Dot(r.post.RawRowView(i)[at*m.c:(at+1)*m.c], q.RawRowView(k))
		}
	}
	return nil
}

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
