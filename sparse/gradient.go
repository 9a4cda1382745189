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
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// GradientLinearGaussian returns the derivatives of EvidenceLinearGaussian in
// log s_g, the log prior variance of each group, at fixed sites (E10). groups
// are the kernels K_g = s_g J_g J_gᵀ. It takes one pass over the data, with
// the cross-kernel of every group, and fails with a *gp.MemoryError where its
// scratch passes Options.MaxMemory.
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
//	d = tr((H − T) dQ) + Σ tr(T_i dk_ii),
//
// with H = ½(fit·ααᵀ − W) and W = (Λ̃⁻¹ + Q)⁻¹. T is a block for each example: that of H with
// FITC, where the residual is independent noise, and otherwise 0. It has dQ = V_gᵀU + UᵀV_g − UᵀS_gU,
// V_g = K^g_Zn, S_g = K^g_ZZ, U = K_ZZ⁻¹K_Zn = GΦ.
type gradient struct {
	p      *Posterior
	fit    float64 // 1: the data term is differentiated; 0: the log det alone
	groups []ntk.Kernel
	grad   []float64
	mid    []float64 // Σ φT_iφᵀ, rank×rank
	t      []float64 // T_i of a chunk
	x, u   []float64 // scratch, rows×rank
	cross  []float64 // scratch, rows × those of K_ZZ
	diag   []float64 // scratch, rows×C
}

func (p *Posterior) gradient(ctx context.Context, groups []ntk.Kernel, fit float64) ([]float64, error) {
	if p.subset != nil {
		return p.subset.gradient(ctx, groups, fit)
	}
	r, c := p.Rank(), p.b.c
	err := p.b.z.checkMemory("a gradient", p.o.MaxMemory, func(m int) int64 {
		// Two squares and a group's K_ZZ; four tiles of features.
		mc := memory.Mul(int64(m), int64(p.b.per))
		return memory.Mul(8, memory.Mul(mc, memory.Add(memory.Mul(3, mc), memory.Mul(4, int64(linearize.Tile(c)*c)))))
	})
	if err != nil {
		return nil, err
	}
	rows := min(p.x.Len(), linearize.Tile(c)) * c
	buf := func(cols int) []float64 { return make([]float64, rows*cols) }
	g := &gradient{p: p, fit: fit, groups: groups, grad: make([]float64, len(groups)), mid: make([]float64, r*r),
		t: buf(c), x: buf(r), u: buf(r), cross: buf(p.b.rows()), diag: buf(c)}
	f := newFeatures(p.b, p.x.Len())
	err = p.b.eachChunk(ctx, p.x, &p.o, StageData, func(t chunk) error {
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

// add adds tr(2U(H−T)V_gᵀ) + Σ tr(T_i k^g_ii) of the examples of a chunk.
func (g *gradient) add(ctx context.Context, t chunk, phi blas64.General) error {
	p, c := g.p, g.p.b.c
	x := dense.In(g.x, t.rows, phi.Cols)
	if err := g.weight(ctx, t, phi, x); err != nil {
		return err
	}
	// 2(H−T)U = fit·αv − (Λ̃φA'⁻¹ + 2Tφ)Gᵀ
	if err := dense.TrsmContext(ctx, p.o.Workers, blas.Right, blas.Trans, 1, p.u, x); err != nil {
		return err
	}
	if g.p.sums.spec.fitc {
		dense.EachRow(p.o.Workers, x, func(i int, row []float64) {
			for a, v := range g.t[i*c : (i+1)*c] {
				floats.AddScaled(row, 2*v, phi.Data[(i/c*c+a)*phi.Stride:][:phi.Cols])
			}
		})
	}
	x, err := p.b.weights(ctx, x)
	if err != nil {
		return err
	}
	alpha := p.alpha[t.first*c:]
	dense.EachRow(p.o.Workers, x, func(i int, row []float64) {
		floats.Scale(-1, row)
		floats.AddScaled(row, g.fit*alpha[i], p.v)
	})
	for n, k := range g.groups {
		// Compute Σ X ∘ K^g_nZ.
		b := g.p.b
		cross := dense.In(g.cross, t.rows, b.rows())
		k.BlockTo(dense.View(cross), t.x, b.z.Batch)
		sums := make([]float64, t.rows)
		dense.EachRow(g.p.o.Workers, x, func(i int, row []float64) {
			sums[i] = floats.Dot(row, cross.Data[i*cross.Stride:][:cross.Cols])
		})
		g.grad[n] += floats.Sum(sums) + g.sumDiag(k, t)
	}
	return nil
}

// weight writes ΛφU⁻¹ to x, with Λ̃ for FITC. It also writes T of the chunk, and adds
// φTφᵀ to mid.
func (g *gradient) weight(ctx context.Context, t chunk, phi, x blas64.General) error {
	p, c := g.p, g.p.b.c
	s := p.local.Slice(t.first, t.first+t.x.Len())
	lambda := s.Lambda
	if p.sums.spec.fitc {
		lambda = make([]float64, t.rows*c)
		p.b.k.DiagTo(mat.NewDense(t.rows, c, g.diag[:t.rows*c]), t.x)
	}
	zero := make([]float64, c)
	err := par.Do(ctx, p.o.Workers, t.x.Len(), func(i int) error {
		li, own := lambda[i*c*c:(i+1)*c*c], dense.Rows(phi, i*c, (i+1)*c)
		if p.sums.spec.fitc {
			w := newFITCSite(c)
			residualTo(w.d, g.diag[i*c*c:(i+1)*c*c], own)
			if err := w.set(s.Block(s.Root, i), zero); err != nil {
				return err
			}
			root := dense.In(w.root, c, c)
			dense.Gemm1(blas.NoTrans, blas.Trans, 1, root, root, 0, dense.In(li, c, c))
		}
		mulTransRoot(dense.Rows(x, i*c, (i+1)*c), own, li)
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.half(ctx, x); err != nil {
		return err
	}
	if !p.sums.spec.fitc {
		return nil
	}
	alpha, tphi := p.alpha[t.first*c:], dense.In(g.u, t.rows, phi.Cols)
	for i := range t.rows {
		for b := range c {
			j := i/c*c + b
			// H_ii = ½(ααᵀ − Λ̃ + Λ̃φA'⁻¹φᵀΛ̃)
			v := floats.Dot(x.Data[i*x.Stride:][:x.Cols], x.Data[j*x.Stride:][:x.Cols])
			g.t[i*c+b] = (g.fit*alpha[i]*alpha[j] - lambda[i*c+b] + v) / 2
		}
	}
	for i := range t.x.Len() {
		mulTransRoot(dense.Rows(tphi, i*c, (i+1)*c), dense.Rows(phi, i*c, (i+1)*c), g.t[i*c*c:(i+1)*c*c])
	}
	return dense.GemmContext(ctx, p.o.Workers, blas.Trans, blas.NoTrans, 1, phi, tphi, 1, dense.In(g.mid, phi.Cols, phi.Cols))
}

// sumDiag returns Σ T_i : k^g_ii.
func (g *gradient) sumDiag(k ntk.Kernel, t chunk) float64 {
	if !g.p.sums.spec.fitc {
		return 0
	}
	c := g.p.b.c
	diag := g.diag[:t.rows*c]
	k.DiagTo(mat.NewDense(t.rows, c, diag), t.x)
	return floats.Dot(diag, g.t[:t.rows*c])
}

// addInducing subtracts tr(U(H−T)Uᵀ S_g), where
// U(H−T)Uᵀ = ½fit·vvᵀ − G(½(I − A'⁻¹) + Σ φTφᵀ)Gᵀ.
func (g *gradient) addInducing(ctx context.Context) error {
	p, r := g.p, g.p.Rank()
	h, err := p.explained(ctx)
	if err != nil {
		return err
	}
	mid := dense.In(g.mid, r, r)
	for i := range r {
		for j := range r {
			// ½(I − A'⁻¹) + Σ φTφᵀ
			mid.Data[i*r+j] += h.Data[i*r+j] / 2
		}
	}
	// G(…)Gᵀ: the rows, then, the middle being symmetric, the columns.
	left, err := p.b.weights(ctx, mid)
	if err != nil {
		return err
	}
	across := dense.New(left.Cols, left.Rows)
	dense.TransposeTo(across, left)
	both, err := p.b.weights(ctx, across)
	if err != nil {
		return err
	}
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
