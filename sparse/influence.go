package sparse

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// InfluenceTo implements gp.Dual, with the h of SelfTo.
func (p *Posterior) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.set.CheckRows(rows, x)
	dense.SizeTo(h, t*c, c)
	dense.SizeTo(q, t, c)
	return p.eachOwn(ctx, rows, x, false, func(at int, o *own) {
		dense.Slice(h, at*c, (at+1)*c).Copy(o.h)
		gp.RemovalFrom(q.RawRowView(at), o.h, o.root, o.prior, o.r)
	})
}

// PseudoCovarianceTo writes the covariance of b_i over labels of training example i that
// are drawn from what the other examples predict for it, through the inducing examples,
// n·C×C: Λ_i + Λ_i cov_−i Λ_i = (Λ_i⁻¹ − h_i)⁻¹ with the cov_−i of φᵀw alone, without the
// residual k_ii − q_ii. It is zero outside a subset of data. rows and x are those of
// InfluenceTo. C(x*,x_i) times it times C(x_i,x*) is what the example takes off the
// variance of the mean at x*, through the inducing examples.
func (p *Posterior) PseudoCovarianceTo(ctx context.Context, v *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.set.CheckRows(rows, x)
	dense.SizeTo(v, t*c, c)
	return p.eachOwn(ctx, rows, x, false, func(at int, o *own) {
		v := dense.Slice(v, at*c, (at+1)*c)
		gp.LeaveOneOutFrom(nil, v, o.h, o.root, o.prior, nil, o.r)
		var lambda, moved mat.Dense
		lambda.Mul(o.root, o.root.T())
		// Λ_i + Λ_i cov_−i Λ_i (E17)
		moved.Product(&lambda, v, &lambda)
		v.Add(&lambda, &moved)
	})
}

// LeaveOneOutTo implements gp.Dual. The inducing examples stay as they are, also
// where one of them is left out: only its observation is removed. The covariance
// contains the residual k_ii − q_ii, as that of PredictTo does. The time is that of one
// cross-kernel and two triangular solves.
//
// The examples outside a subset of data were never observed, so the moments there
// are those of PredictTo.
func (p *Posterior) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.set.CheckRows(rows, x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if err := ctx.Err(); err != nil || mean == nil && cov == nil {
		return err
	}
	return p.eachOwn(ctx, rows, x, mean != nil, func(at int, o *own) { o.leaveOut(mean, cov, at) })
}

// An own is what the removal of one training example needs. All matrices are C×C.
type own struct {
	f, r  []float64  // posterior mean, where it was asked for, and the residual of the site there
	root  *mat.Dense // R with Λ = RRᵀ
	h     *mat.Dense // φ A'⁻¹ φᵀ
	prior *mat.Dense // k_ii
	d     *mat.Dense // k_ii − q_ii
}

// leaveOut writes the moments without the example to the given rows of mean, n×C,
// and cov, n·C×C.
func (o *own) leaveOut(mean, cov *mat.Dense, at int) {
	var m []float64
	if mean != nil {
		m = mean.RawRowView(at)
	}
	c := len(o.r)
	v := dense.Slice(cov, at*c, (at+1)*c)
	gp.LeaveOneOutFrom(m, v, o.h, o.root, o.prior, o.f, o.r)
	if v != nil {
		// cov_−i += k_ii − q_ii (E17)
		v.Add(v, o.d)
		if gp.SettleVariances(v, dense.Diagonal(o.prior.RawMatrix()), rounding, 0, c) != nil {
			v.Apply(func(_, _ int, _ float64) float64 { return math.NaN() }, v)
		}
	}
}

// eachOwn calls do for each of the training examples x, which are in the given rows
// of Data, from several goroutines.
func (p *Posterior) eachOwn(ctx context.Context, rows []int, x *linearize.Batch, mean bool, do func(at int, o *own)) error {
	c := p.b.c
	return p.eachTile(ctx, x, func(tile chunk, f *features) error {
		if err := sites.NotFiniteRows("network output", tile.x.F, tile.first, 1); err != nil {
			return err
		}
		k, err := f.cross(tile)
		if err != nil {
			return err
		}
		n := tile.x.Len()
		var means *mat.Dense
		if mean {
			means = mat.NewDense(n, c, nil)
		}
		phi, err := p.meanAndFeatures(ctx, means, tile.x, tile.first, k, f, true)
		if err != nil {
			return err
		}
		prior, h := mat.NewDense(tile.rows, c, nil), mat.NewDense(tile.rows, c, nil)
		p.b.k.DiagTo(prior, tile.x)
		all := make([]own, n)
		err = par.Do(ctx, n, func(i int) error {
			lo, hi := i*c, (i+1)*c
			all[i] = own{prior: dense.Slice(prior, lo, hi), h: dense.Slice(h, lo, hi)}
			if mean {
				all[i].f = means.RawRowView(i)
			}
			// Set D, the root and the residual of the example in this row of Data.
			o := &all[i]
			row := rows[tile.first+i]
			phi := dense.Rows(phi, lo, hi)
			c := p.b.c
			o.r = p.local.R[row*c : (row+1)*c]
			if p.linearMean() {
				o.r = p.alpha[row*c : (row+1)*c]
			}
			o.root, o.d = mat.NewDense(c, c, p.local.Block(p.local.Root, row)), mat.NewDense(c, c, nil)
			residualTo(o.d.RawMatrix().Data, dense.Contiguous(o.prior), phi)
			return nil
		})
		if err != nil {
			return err
		}
		if err := p.half(ctx, phi); err != nil {
			return err
		}
		return par.Do(ctx, n, func(i int) error {
			blocksOf(all[i].h, 0, dense.Rows(phi, i*c, (i+1)*c), c)
			do(tile.first+i, &all[i])
			return nil
		})
	})
}
