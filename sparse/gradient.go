package sparse

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// GradientLinearGaussian returns the derivatives of EvidenceLinearGaussian in
// log s_g, the log prior variance of each group, at fixed sites (E10). groups
// are the kernels K_g = s_g J_g J_gᵀ. It takes one pass over the data, with
// the cross-kernel of every group, and fails with a *gp.MemoryError where its
// scratch passes Options.Memory.
//
// Where K_ZZ is singular to working precision (a warning of inducing-rank), the derivative of
// K_ZZ⁻¹ loses digits.
func (p *Posterior) GradientLinearGaussian(ctx context.Context, groups []ntk.Kernel) ([]float64, error) {
	return p.gradient(ctx, groups, 1)
}

// GradientAtTheta returns the derivatives of EvidenceAtTheta with θ* held fixed, as
// GradientLinearGaussian does. scatter[g] is ‖θ_g−μ_g‖²/s_g.
func (p *Posterior) GradientAtTheta(ctx context.Context, groups []ntk.Kernel, scatter []float64) ([]float64, error) {
	if len(groups) != len(scatter) {
		panic("sparse: groups and scatter differ in length")
	}
	grad, err := p.gradient(ctx, groups, 0)
	if err != nil {
		return nil, err
	}
	for g := range grad {
		grad[g] += scatter[g] / 2
	}
	return grad, nil
}

// A gradient accumulates the derivatives of an evidence,
//
//	d = tr(H dQ),
//
// with H = ½(fit·ααᵀ − W), W = (Λ⁻¹ + Q)⁻¹ and dQ = V_gᵀU + UᵀV_g − UᵀS_gU, where
// V_g = K^g_Zn, S_g = K^g_ZZ, U = K_ZZ⁻¹K_Zn = GΦ.
type gradient struct {
	p      *Posterior
	sites  sites.Arrays
	fit    float64 // 1: the data term is differentiated; 0: the log det alone
	groups []ntk.Kernel
	grad   []float64
	x      []float64 // scratch, rows×rank
	cross  []float64 // scratch, rows × rows of K_ZZ
}

func (p *Posterior) gradient(ctx context.Context, groups []ntk.Kernel, fit float64) ([]float64, error) {
	if p.subset != nil {
		return p.subset.gradient(ctx, groups, fit)
	}
	c := p.b.c
	err := p.b.z.checkMemory("a gradient", p.o.Memory, func(m int) int64 {
		// Two squares and a group's K_ZZ; four tiles of features.
		mc := memory.Mul(int64(m), int64(p.b.per))
		return memory.Mul(8, memory.Mul(mc, memory.Add(memory.Mul(3, mc), memory.Mul(4, int64(linearize.Tile(c)*c)))))
	})
	if err != nil {
		return nil, err
	}
	rows := min(p.Data().Len(), linearize.Tile(c)) * c
	buf := func(cols int) []float64 { return make([]float64, rows*cols) }
	g := &gradient{p: p, sites: sites.Of(p.Sites()), fit: fit, groups: groups, grad: make([]float64, len(groups)), x: buf(p.Rank()), cross: buf(p.b.rows())}
	f := newFeatures(p.b, p.Data().Len())
	err = p.b.eachChunk(ctx, p.Data(), &p.o, StageData, func(t chunk) error {
		phi, err := f.of(ctx, t)
		if err != nil {
			return err
		}
		return g.add(ctx, t, phi)
	})
	if err != nil {
		return nil, err
	}
	return g.grad, g.addInducing(ctx)
}

// add adds tr(2UHV_gᵀ) of the examples of a chunk.
func (g *gradient) add(ctx context.Context, t chunk, phi blas64.General) error {
	p, c := g.p, g.p.b.c
	x, local := dense.In(g.x, t.rows, phi.Cols), g.sites.Slice(t.first, t.first+t.x.Len())
	err := par.Do(ctx, t.x.Len(), func(i int) error {
		mulTransRoot(dense.Rows(x, i*c, (i+1)*c), dense.Rows(phi, i*c, (i+1)*c), local.Block(local.Lambda, i))
		return nil
	})
	if err != nil {
		return err
	}
	// 2HU = fit·αv − ΛφA'⁻¹Gᵀ
	if err := p.full(ctx, x); err != nil {
		return err
	}
	if x, err = p.b.weights(ctx, x); err != nil {
		return err
	}
	alpha := p.Alpha()[t.first*c:]
	dense.EachRow(x, func(i int, row []float64) {
		floats.Scale(-1, row)
		floats.AddScaled(row, g.fit*alpha[i], p.v)
	})
	for n, k := range g.groups {
		// Compute Σ X ∘ K^g_nZ.
		b := g.p.b
		cross := dense.In(g.cross, t.rows, b.rows())
		k.BlockTo(dense.View(cross), t.x, b.z.Batch)
		sums := make([]float64, t.rows)
		dense.EachRow(x, func(i int, row []float64) {
			sums[i] = floats.Dot(row, cross.Data[i*cross.Stride:][:cross.Cols])
		})
		g.grad[n] += floats.Sum(sums)
	}
	return nil
}

// addInducing subtracts tr(UHUᵀ S_g), where UHUᵀ = ½fit·vvᵀ − ½G(I − A'⁻¹)Gᵀ.
func (g *gradient) addInducing(ctx context.Context) error {
	p := g.p
	root, err := p.root(ctx, false)
	if err != nil {
		return err
	}
	both := dense.New(root.Rows, root.Rows)
	if err := dense.SyrkContext(ctx, blas.NoTrans, .5, root.General, 0, dense.Lower(both)); err != nil {
		return err
	}
	dense.MirrorLower(both)
	for n, k := range g.groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		var s mat.Dense
		k.BlockTo(&s, p.b.z.Batch, p.b.z.Batch)
		for i, v := range p.v {
			row, m := s.RawRowView(i), both.Data[i*both.Stride:]
			for j, u := range p.v {
				g.grad[n] -= (g.fit*v*u/2 - m[j]) * row[j]
			}
		}
	}
	return nil
}
