package cg

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Bounds tell how far predictions may be from those of the exact posterior; see
// Posterior. Where no covariance was asked for, Variance is nil, and Mean uses the
// larger standard deviations of the prior.
type Bounds struct {
	Mean     *mat.Dense // T×C, bounds the error of the mean; zero where that is f(x;θ*)
	Variance *mat.Dense // T×C, bounds how much too large the variances are
	Solve    Solve      // the worst of any right-hand side
}

// PredictTo writes the posterior mean of the T examples of x, T×C, and the
// covariance of each example's outputs, T·C×C (E6). The mean takes no solve,
// the covariance one for each output. A cancelled context ends it between steps
// of conjugate gradients.
func (p *Posterior) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	_, err := p.PredictBounded(ctx, mean, cov, x)
	return err
}

// PredictBounded does what PredictTo does and returns how accurate the result is.
func (p *Posterior) PredictBounded(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) (*Bounds, error) {
	t, c := p.data.set.Check(x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if t == 0 {
		return &Bounds{}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := sites.NotFiniteRows("network output", x.F, 0, 1); err != nil {
		return nil, err
	}
	b := &Bounds{Mean: mat.NewDense(t, c, nil)}
	if mean != nil {
		if err := p.meanTo(mean, x); err != nil {
			return nil, err
		}
	}
	if cov != nil {
		b.Variance = mat.NewDense(t, c, nil)
		if err := p.covarianceTo(ctx, cov, b, x, nil); err != nil {
			return nil, err
		}
	}
	if p.hasDualMean() {
		// The mean is off by at most ‖ρ‖ standard deviations.
		if cov == nil {
			cov = new(mat.Dense)
			p.data.k.DiagTo(cov, x)
		}
		for i := range t * c {
			b.Mean.Set(i/c, i%c, p.meanBound*math.Sqrt(math.Max(0, cov.At(i, i%c))))
		}
	}
	return b, nil
}

// meanTo writes m + K_*n α, or f(x;θ*).
func (p *Posterior) meanTo(mean *mat.Dense, x *linearize.Batch) error {
	if !p.hasDualMean() {
		mean.Copy(x.F)
		return nil
	}
	c := p.data.c
	m, k := make([]float64, x.Len()*c), mat.NewDense(x.Len()*c, 1, nil)
	p.data.k.MeanTo(m, x)
	// K_*n α = κ(x*, u), where u has the Jacobian αᵀJ
	p.data.k.BlockTo(k, x, p.jacobianAlpha)
	for i := range m {
		// mean(x*) = m(x*) + K_*n α (E6)
		m[i] += k.At(i, 0)
		mean.Set(i/c, i%c, m[i])
	}
	return sites.NotFinite("predictive mean", m, 0, c)
}

// covarianceTo writes the covariance blocks, as many right-hand sides at a
// time as there is room for. If without is not nil, each example's posterior does
// not know the training example without names for it.
func (p *Posterior) covarianceTo(ctx context.Context, cov *mat.Dense, b *Bounds, x *linearize.Batch, without []int) error {
	t, c := x.Len(), p.data.c
	p.data.k.DiagTo(cov, x)
	step := max(1, min(t, p.columns/c))
	s := p.predictor(step * c)
	for lo := 0; lo < t; lo += step {
		hi := min(lo+step, t)
		if without != nil {
			s.without = without[lo:hi]
		}
		v, y, err := s.solveCross(ctx, x.Slice(lo, hi))
		if err != nil {
			return err
		}
		// (v + ρ)ᵀy for each example
		q, both := dense.New((hi-lo)*c, c), s.matrix(s.q, v)
		dense.Copy(both, v)
		add(both, s.res)
		if c == 1 {
			copy(q.Data, dots(both, y))
		}
		for i := 0; c > 1 && i < hi-lo; i++ {
			err := dense.GemmContext(ctx, blas.Trans, blas.NoTrans, 1, dense.Cols(both, i*c, (i+1)*c), dense.Cols(y, i*c, (i+1)*c), 0, dense.Rows(q, i*c, (i+1)*c))
			if err != nil {
				return err
			}
		}
		bounds, err := s.errors(ctx)
		if err != nil {
			return err
		}
		for i, e := range bounds {
			b.Variance.Set(lo+i/c, i%c, e)
		}
		for i := range hi - lo {
			block := dense.Rows(cov.RawMatrix(), (lo+i)*c, (lo+i+1)*c)
			if err := subtractFromPrior(block, dense.Rows(q, i*c, (i+1)*c), lo+i, c); err != nil {
				return err
			}
		}
	}
	b.Solve = s.worst
	p.note(s.worst)
	return nil
}

// note remembers the worst solve of all predictions.
func (p *Posterior) note(s Solve) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.predicted.worst(s)
}

// A predictor solves for the kernels of test examples.
type predictor struct {
	*solver
	v, x  []float64 // right-hand sides and solutions
	worst Solve
}

func (p *Posterior) predictor(columns int) *predictor {
	n := len(p.prior) * columns
	s := &predictor{solver: p.sys.solver(columns), v: make([]float64, n), x: make([]float64, n)}
	s.progress = func(string, int, int) {}
	return s
}

// solveCross returns v = RᵀK_n* and B⁻¹v for the outputs of all examples of x.
func (s *predictor) solveCross(ctx context.Context, x *linearize.Batch) (v, y blas64.General, err error) {
	rows, k := s.data.n*s.data.c, x.Len()*s.data.c
	v, y = dense.In(s.v, rows, k), dense.In(s.x, rows, k)
	if err := s.data.crossTo(ctx, v, x); err != nil {
		return v, y, err
	}
	s.root.mul(v, 0, true)
	s.leaveOut(v)
	out, err := s.solve(ctx, y, v, s.o.Tolerance)
	s.worst.worst(out)
	return v, y, err
}

// rounding is how negative rounding may make a variance, relative to the prior
// variance.
const rounding = 1e-10

// subtract replaces cov, the prior covariance, by cov − (q + qᵀ)/2. Its first row
// is output 0 of the given example.
func subtractFromPrior(cov, q blas64.General, example, c int) error {
	prior := dense.Diagonal(cov)
	for i := range cov.Rows {
		row := dense.Row(cov, i)
		for j := range i + 1 {
			// cov = K_** − K_*n R B⁻¹ Rᵀ K_n* (E6)
			row[j] -= (q.Data[i*q.Stride+j] + q.Data[j*q.Stride+i]) / 2
			cov.Data[j*cov.Stride+i] = row[j]
		}
	}
	return gp.SettleVariances(dense.View(cov), prior, rounding, example, c)
}

// JointTo writes the mean, T×C, and the joint covariance of all outputs of
// all examples of x, T·C×T·C (E6). It takes 16·T·C·N·C bytes beside the
// result, and fails with a *gp.MemoryError where both together take more than
// Options.MaxMemory.
func (p *Posterior) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := p.data.set.Check(x)
	dense.SizeTo(mean, t, c)
	if cov == nil || t == 0 {
		dense.SizeTo(cov, t*c, t*c)
		return p.PredictTo(ctx, mean, nil, x)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	need := func(t int) int64 {
		rows := memory.Mul(int64(t), int64(c))
		return memory.Mul(8, memory.Mul(rows, memory.Add(2*rows, 2*int64(len(p.prior)))))
	}
	if err := gp.CheckMemory("a joint covariance", gp.TestExamples, t, p.o.MaxMemory, need); err != nil {
		return err
	}
	dense.SizeTo(cov, t*c, t*c)
	if err := sites.NotFiniteRows("network output", x.F, 0, 1); err != nil {
		return err
	}
	if mean != nil {
		if err := p.meanTo(mean, x); err != nil {
			return err
		}
	}
	// K_** − (V + ρ)ᵀY
	n := len(p.prior)
	both, all := dense.New(n, t*c), dense.New(n, t*c) // V + ρ and Y = B⁻¹V
	step := max(1, min(t, p.columns/c))
	s := p.predictor(step * c)
	for lo := 0; lo < t; lo += step {
		hi := min(lo+step, t)
		v, y, err := s.solveCross(ctx, x.Slice(lo, hi))
		if err != nil {
			return err
		}
		add(v, s.res)
		dense.Copy(dense.Cols(both, lo*c, hi*c), v)
		dense.Copy(dense.Cols(all, lo*c, hi*c), y)
	}
	p.note(s.worst)
	q := dense.New(t*c, t*c)
	if err := dense.GemmContext(ctx, blas.Trans, blas.NoTrans, 1, both, all, 0, q); err != nil {
		return err
	}
	if err := ntk.BlockContextTo(ctx, p.data.k, cov, x, x); err != nil {
		return err
	}
	return subtractFromPrior(cov.RawMatrix(), q, 0, c)
}
