package certificate

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// LowerVariances returns v_k − Σ c cᵀ over all dropped rows for the T examples asked,
// T·C×C. It bounds their covariance given all rows from below, as a PSD order (E16); v_k
// bounds it from above. Where ‖M‖₂ is not small the bound is loose, and it may have
// negative eigenvalues.
//
// It takes one pass over the training examples, with a backward pass for each dropped
// row and no solve, or with Options.Products and few outputs asked a product with J for
// each. Where that is a difference, as a network's, so is the bound: right to some six
// digits of what it subtracts. It takes 8·T·C·(T·C + 2P + 5n) bytes for n kept rows. The other arguments and the
// errors are those of Certify.
func LowerVariances(ctx context.Context, t *gp.Thinned, src linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, asked *linearize.Batch, o *Options) (*mat.Dense, error) {
	opt := o.withDefaults()
	d, err := newDropped(ctx, t, src, s, prior, theta, &opt)
	if err != nil {
		return nil, stopped(err)
	}
	dst := new(mat.Dense)
	if err := d.lowerTo(ctx, dst, asked); err != nil {
		return nil, stopped(err)
	}
	return dst, nil
}

// lowerTo is LowerVariances.
func (d *dropped) lowerTo(ctx context.Context, dst *mat.Dense, asked *linearize.Batch) error {
	outputs := asked.Outputs()
	rows, n, p := asked.Len()*outputs, d.post.Kept().Len(), asked.P
	err := gp.CheckMemory("a lower bound of variances", gp.TestExamples, asked.Len(), d.o.MaxMemory, func(t int) int64 {
		rows := memory.Mul(int64(t), int64(outputs))
		return memory.Mul(8, memory.Mul(rows, memory.Add(rows, memory.Add(5*int64(n), 2*int64(p)))))
	})
	if err != nil {
		return err
	}
	if err := d.post.PredictTo(ctx, nil, dst, asked); err != nil || rows == 0 || d.rows.Len() == 0 {
		return err
	}
	if d.o.Products != nil && rows <= fewOutputs {
		return d.lowerByProducts(ctx, dst, asked)
	}
	posterior, err := d.post.Jacobian(ctx, asked, nil)
	if err != nil {
		return err
	}
	one := mat.NewDense(rows, rows, nil)
	for i := range rows {
		one.Set(i, i, 1)
	}
	known := d.kernel.Prepare(posterior, one)
	var c mat.Dense
	return linearize.Combine(d.src, d.scaled()).Batches(ctx, func(first int, b *linearize.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		// c = √λ uᵀ C_k(x_i,x), one row for each dropped row, by the posterior Jacobian of x
		c.Reset()
		known.MulTo(&c, b)
		d.o.Progress(StageLower, first+b.Len(), d.src.Len())
		return d.subtract(ctx, dst, mat.DenseCopyOf(c.T()))
	})
}

// fewOutputs is the most outputs for which a product with J for each takes less time than
// to linearize the dropped rows.
const fewOutputs = 64

// lowerByProducts subtracts c cᵀ from dst, where c = S J C J(x)ᵀ takes a product with the
// Jacobian of the training examples for each output asked.
func (d *dropped) lowerByProducts(ctx context.Context, dst *mat.Dense, asked *linearize.Batch) error {
	m, outputs := d.product(), asked.Outputs()
	need := func(n int) int64 { return memory.Mul(8*int64(outputs), int64(n)) }
	if err := gp.CheckMemory("a lower bound of variances", "dropped rows", d.rows.Len(), d.o.MaxMemory, need); err != nil {
		return err
	}
	c := mat.NewDense(outputs, d.rows.Len(), nil)
	for t := range asked.Len() {
		x := asked.Slice(t, t+1)
		for a := range outputs {
			unit := make([]float64, outputs)
			unit[a] = 1
			x.MulTransVecTo(m.params, unit)
			if err := m.toRows(ctx, c.RawRowView(a)); err != nil {
				return err
			}
		}
		if err := d.subtract(ctx, dense.Slice(dst, t*outputs, (t+1)*outputs), c); err != nil {
			return err
		}
		d.o.Progress(StageLower, t+1, asked.Len())
	}
	return nil
}

// subtract subtracts c cᵀ of each asked example from its block of dst; c has a column for
// each dropped row.
func (d *dropped) subtract(ctx context.Context, dst, c *mat.Dense) error {
	_, outputs := dst.Dims()
	return par.Do(ctx, d.o.Workers, dense.Count(dst)/outputs, func(t int) error {
		for i := t * outputs; i < (t+1)*outputs; i++ {
			for j := range i - t*outputs + 1 {
				at := t*outputs + j
				v := dst.At(i, j) - floats.Dot(c.RawRowView(i), c.RawRowView(at))
				dst.Set(i, j, v)
				dst.Set(at, i-t*outputs, v)
			}
		}
		return nil
	})
}

// scaled returns √λ u of the dropped rows as weights of the outputs, the same number of
// rows for each example: those that it does not drop are zero.
func (d *dropped) scaled() *mat.Dense {
	count := make([]int, d.src.Len())
	most := 0
	for _, i := range d.rows.Examples {
		count[i]++
		most = max(most, count[i])
	}
	clear(count)
	w := mat.NewDense(len(count)*most, d.outputs(), nil)
	for j, i := range d.rows.Examples {
		floats.ScaleTo(w.RawRowView(i*most+count[i]), d.root[j], d.rows.Directions.RawRowView(j))
		count[i]++
	}
	return w
}
