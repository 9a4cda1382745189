package gp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/ntk"
)

// GroupTerms are the parts of the derivatives (E10), one number for each group.
type GroupTerms struct {
	Trace []float64 // tr(B⁻¹RᵀK_gR)
	Quad  []float64 // αᵀK_gα, with the posterior's α or that of GroupTermsOf
	// Inverse is tr B⁻¹, from which the derivative in the log noise variance follows.
	Inverse float64

	kalpha  [][]float64 // K_g α
	covered []float64   // diagonal of I − B⁻¹ = RᵀCR, N·C
}

// invertRows is the number of rows of B⁻¹ that are formed at once.
const invertRows = 256

// GroupTerms computes the parts of the derivatives in the log prior variance s_g of each group,
// whose kernels are K_g = s_g J_g J_gᵀ. That of the evidence at θ* is ½‖θ_g−μ_g‖²/s_g − ½ Trace, and
// that of the linear-Gaussian model at fixed sites ½ Quad − ½ Trace (E10). It forms the upper triangle
// of B⁻¹ and of every K_g, panels of rows at a time.
func (e *Exact) GroupTerms(ctx context.Context, groups []ntk.Kernel) (*GroupTerms, error) {
	return e.GroupTermsOf(ctx, groups, e.Alpha())
}

// GroupTermsOf does what GroupTerms does with another dual vector, N·C, in Quad, such as that of the mode where B is at
// other sites. ½ Quad − ½ Trace is then the derivative of Σ log p(y|f̂) − ½ αᵀKα − ½ log det B with f̂ = m + Kα the mode
// and the sites of B held fixed. It panics where the length of alpha is not N·C.
func (e *Exact) GroupTermsOf(ctx context.Context, groups []ntk.Kernel, alpha []float64) (*GroupTerms, error) {
	s := e.s
	if len(alpha) != s.g.n {
		panic("gp: the dual vector has another length")
	}
	n, c := s.x.Len(), s.outputs()
	t := &GroupTerms{Trace: make([]float64, len(groups)), Quad: make([]float64, len(groups)), covered: make([]float64, s.g.n)}
	for range groups {
		t.kalpha = append(t.kalpha, make([]float64, s.g.n))
	}
	step := max(1, invertRows/c)
	scratch := min(n, step) * c * s.g.n
	wData, kData := make([]float64, scratch), make([]float64, scratch)
	for p := range par.Tiles(n, step) {
		lo, hi := par.Bounds(p, n, step)
		rows, tail := (hi-lo)*c, s.g.n-lo*c
		w, kg := dense.Of(wData[:rows*tail], rows, tail), dense.Of(kData[:rows*tail], rows, tail)
		// The rows of R B⁻¹ Rᵀ from column lo·C on, and the diagonal of B⁻¹.
		err := s.f.inverseTailTo(ctx, w, t.covered[lo*c:hi*c], lo*c)
		if err == nil {
			err = eachRow(ctx, w, func(row []float64) { s.f.r.mulTransRow(row, lo) })
		}
		if err == nil {
			err = par.Do(ctx, hi-lo, func(i int) error {
				s.f.r.leftMul(dense.Rows(w, i*c, (i+1)*c), lo+i)
				return nil
			})
		}
		if err != nil {
			return nil, stopped("inverting I + RᵀKR", err)
		}
		for g, k := range groups {
			if err := tileTo(ctx, k, dense.View(dense.Cols(kg, 0, rows)), s.x, lo, hi, lo, hi); err != nil {
				return nil, err
			}
			if hi < n {
				if err := tileTo(ctx, k, dense.View(dense.Cols(kg, rows, tail)), s.x, lo, hi, hi, n); err != nil {
					return nil, err
				}
			}
			// Σ W∘K_g, where entries right of the diagonal tile count twice, because both matrices
			// are symmetric.
			parts := make([]float64, rows)
			dense.EachRow(w, func(i int, wi []float64) {
				ki := dense.Row(kg, i)
				parts[i] = floats.Dot(wi[:rows], ki[:rows]) + 2*floats.Dot(wi[rows:], ki[rows:])
			})
			t.Trace[g] += floats.Sum(parts)
			// What these rows say of K_g α on both sides of the diagonal.
			on, from := t.kalpha[g][lo*c:], alpha[lo*c:]
			dense.Gemv(blas.NoTrans, 1, kg, dense.Vector(from), 1, dense.Vector(on[:rows]))
			if rows < tail {
				dense.Gemv(blas.Trans, 1, dense.Cols(kg, rows, tail), dense.Vector(from[:rows]), 1, dense.Vector(on[rows:]))
			}
		}
		s.o.Show(StageInvert, hi, n)
	}
	for g := range groups {
		t.Quad[g] = floats.Dot(alpha, t.kalpha[g])
	}
	for i, v := range t.covered {
		t.Inverse += v
		t.covered[i] = 1 - v
	}
	return t, nil
}

// Moving returns what the moving mode adds to the derivatives of EvidenceRefit,
// −½ Σ_i tr(C_ii dΛ_i/d log s_g) for each group of t (E10). It takes one solve for all
// groups. It panics on a posterior that was not refitted.
func (e *Exact) Moving(ctx context.Context, t *GroupTerms, y *Targets) ([]float64, error) {
	if !e.Refitted() {
		panic("gp: the mode moves only in a refit")
	}
	moving := make([]float64, len(t.kalpha))
	q, err := e.slopes(ctx, t.covered, y)
	if err != nil || floats.Norm(q, math.Inf(1)) == 0 {
		return moving, err
	}
	// df̂ = (I − CΛ)K_gα and I − ΛC = (I + ΛK)⁻¹, so qᵀdf̂ = ((I + ΛK)⁻¹q)ᵀK_gα.
	var z []float64
	if y.Scored() {
		z, err = e.s.curvedDual(ctx, q, y)
	} else {
		z, _, _, err = e.s.dual(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	for g := range moving {
		// −½ Σ_i tr(C_ii dΛ_i) (E10)
		moving[g] = -floats.Dot(z, t.kalpha[g]) / 2
	}
	return moving, nil
}

// slopes returns q with qᵀdf = Σ_i tr(C_ii dΛ_i) for any change df of the function
// values, N·C.
func (e *Exact) slopes(ctx context.Context, covered []float64, y *Targets) ([]float64, error) {
	n, c := e.s.x.Len(), e.s.outputs()
	q := make([]float64, n*c)
	s, sloped := y.Likelihood.(Sloped)
	var h mat.Dense
	if !sloped {
		if err := e.InfluenceTo(ctx, &h, new(mat.Dense), dense.Range(n), e.s.x); err != nil {
			return nil, err
		}
	}
	return q, par.Do(ctx, n, func(i int) error {
		dst, f := q[i*c:(i+1)*c], e.Sites().F.RawRowView(i)
		if sloped {
			// RᵀC_iiR = I − [B⁻¹]_ii, with the weight of the row in R
			slopeTo(dst, s, y.Y.RawRowView(i), f, covered[i*c:(i+1)*c])
		} else {
			y.SlopeTo(dst, i, f, dense.Contiguous(dense.Slice(&h, i*c, (i+1)*c)))
		}
		return nil
	})
}

// curvatureSlopeTo is Targets.SlopeTo for one example of weight 1.
func curvatureSlopeTo(dst []float64, lik Likelihood, y, f, cov []float64) {
	c := len(f)
	s, ok := lik.(Sloped)
	if !ok {
		for j := range dst {
			// Compute ∂Λ/∂f_j at f, C·C, by differences of the fourth order.
			c := len(f)
			at, lambda, slope := append([]float64(nil), f...), make([]float64, c*c), make([]float64, c*c)
			h := max(slopeStep, leastStep*math.Abs(f[j]))
			for _, p := range [...]struct{ steps, weight float64 }{{1, 8. / 12}, {-1, -8. / 12}, {2, -1. / 12}, {-2, 1. / 12}} {
				at[j] = f[j] + p.steps*h
				lik.Expand(nil, lambda, nil, y, at)
				floats.AddScaled(slope, p.weight/h, lambda)
			}
			dst[j] = floats.Dot(cov, slope)
		}
		return
	}
	root, covered := make([]float64, c*c), make([]float64, c)
	lik.Expand(nil, nil, root, y, f)
	for j := range covered {
		for a := range c {
			for b := range c {
				covered[j] += root[a*c+j] * cov[a*c+b] * root[b*c+j]
			}
		}
	}
	slopeTo(dst, s, y, f, covered)
}

// slopeTo writes the derivatives of tr(CΛ) in f, where covered is the diagonal of RᵀCR.
func slopeTo(dst []float64, s Sloped, y, f, covered []float64) {
	u, df := make([]float64, len(f)), make([]float64, len(f))
	for j := range dst {
		clear(df)
		df[j] = 1
		s.SlopeTo(u, y, f, df)
		// tr(C R diag(u) Rᵀ)
		dst[j] = floats.Dot(covered, u)
	}
}

// The step of the differences of Λ is slopeStep, at which those of the fourth order err
// by about 1e-12 where Λ changes over function values of size 1, and at least
// leastStep times the function value, so that its rounding stays small.
const slopeStep, leastStep = 2e-3, 1e-7
