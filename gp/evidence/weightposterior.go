package evidence

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/ntk"
)

// A weightPosterior is a posterior in weight space.
type weightPosterior struct {
	w     *weightSpace
	prior *ntk.Scaled
	white newton.Whitened
	u     blas64.Triangular
	s     *gp.Sites
	v     []float64 // mean of the parameters
	f     []float64 // m + J(v − μ₀)
	warn  []error

	// alpha and logLik are α and Σ log p(y|f) for HeldSites. For HeldSites v and f are the values at the mode, and
	// s and u are at θ*. For other forms alpha is nil.
	alpha  []float64
	logLik float64
}

func (w *weightSpace) at(ctx context.Context, form Form, prior *ntk.Scaled, y *gp.Targets) (posterior, error) {
	q := &weightPosterior{w: w, prior: prior, white: newton.NewWhitened(prior, w.p())}
	s, err := gp.NewSites(y, w.m.p.X.F)
	if err != nil {
		return nil, err
	}
	if form.refits() {
		if err := q.refit(ctx, y); err != nil || form == Refit {
			return q, err
		}
		q.alpha, q.logLik = q.dual(), q.s.LogLik
	}
	if err := q.condition(ctx, s); err != nil || form == HeldSites {
		return q, err
	}
	// b = r + Λ(f − m) (E5)
	x := w.m.p.X
	b := sites.MulBlocks(s.Lambda, newton.Minus(dense.Flat(x.F), w.mean))
	floats.Add(b, dense.Flat(s.Residual))
	z := q.whitened(b)
	dense.Solve(q.u, z)
	q.v, q.f = q.white.Theta(z), make([]float64, len(b))
	w.outputsTo(q.f, q.v)
	return q, nil
}

// condition factors A at the sites s.
func (q *weightPosterior) condition(ctx context.Context, s *gp.Sites) (err error) {
	q.s = s
	if err := q.w.form(ctx, s); err != nil {
		return err
	}
	q.u, err = q.w.factorize(ctx, q.white.Root)
	return err
}

// whitened returns Φᵀu, P numbers.
func (q *weightPosterior) whitened(u []float64) []float64 {
	z := q.w.project(u)
	floats.Mul(z, q.white.Root)
	return z
}

// place returns the point with whitened parameters z.
func (q *weightPosterior) place(z []float64) *newton.Point {
	p := &newton.Point{Weights: z, F: make([]float64, len(q.w.mean))}
	q.w.outputsTo(p.F, q.white.Theta(z))
	return p
}

// start returns the point at which a refit starts: the parameters of the last mode, or θ*, as far as parameters
// with a prior variance reach them.
func (q *weightPosterior) start() *newton.Point {
	from := q.w.last
	if from == nil {
		from = q.w.m.p.Theta
	}
	return q.place(q.white.Of(from))
}

// refit finds the mode of the linearized model (E9) by Newton steps.
func (q *weightPosterior) refit(ctx context.Context, y *gp.Targets) error {
	p := q.w.m.p
	l := &newton.Objective{Y: y}
	from := q.start()
	// Where the prior mean has a higher objective, it is the better start.
	if origin := q.place(make([]float64, len(q.white.Root))); l.Objective(origin) > l.Objective(from) {
		from = origin
	}
	search := newton.Search{MaxIter: 100, Move: math.Inf(1)}
	from, err := newton.Find(&search, l, from.F, from, func(f []float64, from *newton.Point) (*newton.Point, error) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("evidence: stopped while refitting: %w", err)
		}
		s, err := gp.NewSites(y, dense.View(dense.Of(f, p.X.Len(), p.X.Outputs())))
		if err != nil {
			return nil, err
		}
		if err := q.condition(ctx, s); err != nil {
			return nil, err
		}
		// z + A⁻¹(Φᵀr − z)
		z := q.whitened(dense.Flat(s.Residual))
		floats.Sub(z, from.Weights)
		dense.Solve(q.u, z)
		floats.Add(z, from.Weights)
		return q.place(z), nil
	})
	if err != nil {
		return err
	}
	q.warn = append(q.warn, search.Warnings()...)
	q.v, q.f = q.white.Theta(from.Weights), from.F
	q.w.last = q.v
	return nil
}

// scatter returns ‖z‖² = (v − μ₀)ᵀS⁻¹(v − μ₀) of the mean v.
func (q *weightPosterior) scatter() float64 {
	z := q.white.Of(q.v)
	return floats.Dot(z, z)
}

func (q *weightPosterior) evidence(form Form, scatter float64) gp.Evidence {
	ld := dense.LogDet(q.u)
	switch form {
	case AtTheta:
		return gp.NewEvidence(q.s.LogLik, scatter, ld)
	case LinearGaussian:
		// Σ[log p(y|f) + rᵀd − ½dᵀΛd] − ½ αᵀKα − ½ log det B (E8)
		d := newton.Minus(q.f, dense.Flat(q.s.F))
		logLik := q.s.LogLik + floats.Dot(dense.Flat(q.s.Residual), d) - floats.Dot(d, sites.MulBlocks(q.s.Lambda, d))/2
		return gp.NewEvidence(logLik, q.scatter(), ld)
	case HeldSites:
		return gp.NewEvidence(q.logLik, q.scatter(), ld)
	}
	return gp.NewEvidence(q.s.LogLik, q.scatter(), ld)
}

func (q *weightPosterior) sites() *gp.Sites  { return q.s }
func (q *weightPosterior) warnings() []error { return q.warn }

// dual returns α = r + Λ(f − f̂), with r and Λ at the sites' function values f.
func (q *weightPosterior) dual() []float64 {
	if q.alpha != nil {
		return q.alpha
	}
	alpha := sites.MulBlocks(q.s.Lambda, newton.Minus(dense.Flat(q.s.F), q.f))
	floats.Add(alpha, dense.Flat(q.s.Residual))
	return alpha
}

func (q *weightPosterior) terms(ctx context.Context, form Form, y *gp.Targets) (*terms, error) {
	groups, factor := q.prior.Groups(), q.prior.Factors()
	t := &terms{trace: make([]float64, len(groups)), quad: make([]float64, len(groups)), inverse: float64(len(q.f))}
	unit := make([]float64, len(q.white.Root)) // variances at factors of 1
	q.w.m.prior.VarianceTo(unit)
	// Compute for each parameter the leverage 1 − [A⁻¹]_pp = s_p J_pᵀRB⁻¹RᵀJ_p, with J_p column p of J. For a
	// parameter whose group has a factor of 0 compute J_pᵀRB⁻¹RᵀJ_p.
	p := len(q.white.Root)
	leverage := make([]float64, p)
	const step = 256
	data := make([]float64, min(step, p)*p)
	for t := range par.Tiles(p, step) {
		lo, hi := par.Bounds(t, p, step)
		rows := dense.Of(data[:(hi-lo)*(p-lo)], hi-lo, p-lo)
		dense.Zero(rows)
		for i := range rows.Rows {
			rows.Data[i*rows.Stride+i] = 1
		}
		tail := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: p - lo, Stride: q.u.Stride, Data: q.u.Data[lo*q.u.Stride+lo:]}
		if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, tail, rows); err != nil {
			return nil, err
		}
		for i := range rows.Rows {
			row := dense.Row(rows, i)[i:]
			leverage[lo+i] = 1 - floats.Dot(row, row)
		}
	}
	err := q.zeroLeverage(ctx, leverage, unit, data)
	if err != nil {
		return nil, err
	}
	ja := q.w.project(q.dual())
	var jz []float64
	if _, constant := y.Likelihood.(*glm.Gaussian); form == Refit {
		t.moving = make([]float64, len(groups))
		if !constant {
			if jz, err = q.moving(ctx, y); err != nil {
				return nil, err
			}
		}
	}
	for g, group := range groups {
		for _, s := range group.Spans {
			for i := s.Offset; i < s.Offset+s.Len(); i++ {
				if unit[i] == 0 {
					continue // not a parameter of the model
				}
				if factor[g] > 0 {
					t.inverse -= leverage[i]
					t.trace[g] += leverage[i] / factor[g]
				} else {
					t.trace[g] += unit[i] * leverage[i]
				}
				// αᵀK_gα and −½ zᵀK_gα
				t.quad[g] += unit[i] * ja[i] * ja[i]
				if jz != nil {
					t.moving[g] -= unit[i] * jz[i] * ja[i] / 2
				}
			}
		}
	}
	return t, nil
}

// zeroLeverage writes J_pᵀRB⁻¹RᵀJ_p = H_pp − ‖U⁻ᵀS^½H_p‖² for the parameters in groups with a factor of 0.
func (q *weightPosterior) zeroLeverage(ctx context.Context, out, unit, data []float64) error {
	var zero []int
	for i, s := range q.white.Root {
		if s == 0 && unit[i] > 0 {
			zero = append(zero, i)
		}
	}
	p, h := len(q.white.Root), q.w.ggn()
	step := min(256, p)
	for t := range par.Tiles(len(zero), step) {
		lo, hi := par.Bounds(t, len(zero), step)
		rows := dense.Of(data[:(hi-lo)*p], hi-lo, p)
		for i, at := range zero[lo:hi] {
			row := dense.Row(rows, i)
			for j := range row {
				row[j] = q.white.Root[j] * q.w.scale * h.Data[max(at, j)*h.Stride+min(at, j)]
			}
		}
		if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, q.u, rows); err != nil {
			return err
		}
		for i, at := range zero[lo:hi] {
			row := dense.Row(rows, i)
			out[at] = q.w.scale*h.Data[at*h.Stride+at] - floats.Dot(row, row)
		}
	}
	return nil
}

// moving returns Jᵀz with z = (I + ΛK)⁻¹q and qᵀdf = Σ_i tr(C_ii dΛ_i) (E10).
func (q *weightPosterior) moving(ctx context.Context, y *gp.Targets) ([]float64, error) {
	p := q.w.m.p
	c := p.X.Outputs()
	slope := make([]float64, len(q.f))
	err := q.w.eachTile(ctx, func(lo int, j blas64.General) error {
		dense.EachRow(j, func(_ int, row []float64) { floats.Mul(row, q.white.Root) })
		// C_ii = ΦA⁻¹Φᵀ
		if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, q.u, j); err != nil {
			return err
		}
		return par.Do(ctx, j.Rows/c, func(i int) error {
			cov := make([]float64, c*c)
			for a := range c {
				for b := range c {
					cov[a*c+b] = floats.Dot(dense.Row(j, i*c+a), dense.Row(j, i*c+b))
				}
			}
			n := lo + i
			y.SlopeTo(slope[n*c:(n+1)*c], n, q.s.F.RawRowView(n), cov)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("evidence: stopped while differentiating: %w", err)
	}
	// Jᵀ(I + ΛK)⁻¹q = Jᵀq − H S^½A⁻¹S^½Jᵀq
	jq := q.w.project(slope)
	z := append([]float64(nil), jq...)
	floats.Mul(z, q.white.Root)
	dense.Solve(q.u, z)
	floats.Mul(z, q.white.Root)
	h := q.w.ggn()
	dense.Symv(-1, h, dense.Vector(z), 1, dense.Vector(jq))
	return jq, nil
}
