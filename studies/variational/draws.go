package variational

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// DrawsOptions are the options of RefineDraws. Nil and zero mean the defaults.
type DrawsOptions struct {
	Diagonal bool    // independent parameters
	Steps    int     // of natural gradients; 0 means 8
	Rate     float64 // of a step, at most 1; 0 means 0.5
	Draws    int     // of a step, an even number; 0 means 32
	Seed     uint64
}

func (o *DrawsOptions) withDefaults() DrawsOptions {
	var d DrawsOptions
	if o != nil {
		d = *o
	}
	if d.Steps < 0 || d.Rate < 0 || d.Rate > 1 || d.Draws < 0 || d.Draws%2 != 0 {
		panic("variational: invalid options")
	}
	if d.Steps == 0 {
		d.Steps = 8
	}
	if d.Rate == 0 {
		d.Rate = 0.5
	}
	if d.Draws == 0 {
		d.Draws = 32
	}
	return d
}

// A Drawn is a Gaussian over the parameters, N(mean, Q⁻¹).
type Drawn struct {
	mean     []float64
	upper    blas64.Triangular // U with Q = UᵀU, of all parameters
	diagonal []float64         // of Q, where parameters are independent; else nil
}

// Center returns the mean. It must not be changed.
func (q *Drawn) Center() []float64 { return q.mean }

// Quadratic returns vᵀQ⁻¹v.
func (q *Drawn) Quadratic(v []float64) float64 {
	x := append([]float64(nil), v...)
	if q.diagonal != nil {
		floats.Div(x, q.diagonal)
	} else {
		dense.Solve(q.upper, x)
	}
	return floats.Dot(x, v)
}

// SampleTo writes S draws of the parameters to the rows of dst, S×P, which must be sized.
func (q *Drawn) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	return q.drawTo(ctx, dst, rng, false)
}

// drawTo draws the second half of the rows as the reflections of the first where it says so.
func (q *Drawn) drawTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand, reflected bool) error {
	s, p := dst.Dims()
	half := s
	if reflected {
		half = s / 2
	}
	for i := range half {
		for j, row := 0, dst.RawRowView(i); j < p; j++ {
			row[j] = rng.NormFloat64()
		}
	}
	if q.diagonal != nil {
		for i := range half {
			for j, row := 0, dst.RawRowView(i); j < p; j++ {
				row[j] /= math.Sqrt(q.diagonal[j])
			}
		}
	} else if err := dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, q.upper, dense.Slice(dst, 0, half).RawMatrix()); err != nil {
		return err
	}
	for i := half; i < s; i++ {
		floats.ScaleTo(dst.RawRowView(i), -1, dst.RawRowView(i-half))
	}
	for i := range s {
		floats.Add(dst.RawRowView(i), q.mean)
	}
	return ctx.Err()
}

// RefineDraws is RefineWeights, or RefineDiagonal, for a network of dense layers with more function values N·C than
// parameters: natural gradients [glm 3.2] from the Laplace posterior at theta = θ* on, whose expectations are means over
// draws and their reflections, in place of the source's single draw. JᵀWJ is formed layer by layer from the factors
// of J, in the time of N·P² rather than N·C·P². Every block of x must be a *linearize.Outer.
//
// With independent parameters the mean takes Newton steps with the full JᵀWJ.
func RefineDraws(ctx context.Context, x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *DrawsOptions) (*Drawn, error) {
	r, err := newDrawsRun(x, y, lik, prior, theta, o)
	if err != nil {
		return nil, err
	}
	if err := r.laplace(ctx); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(r.o.Seed, 0xd7a25))
	samples := mat.NewDense(r.o.Draws, len(theta), nil)
	for step := range r.o.Steps {
		if err := r.q.drawTo(ctx, samples, rng, true); err != nil {
			return nil, err
		}
		if err := r.step(ctx, samples); err != nil {
			return nil, fmt.Errorf("variational: step %d: %w", step, err)
		}
	}
	return r.q, nil
}

// LaplaceDraws is the Laplace posterior that RefineDraws starts from.
func LaplaceDraws(ctx context.Context, x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *DrawsOptions) (*Drawn, error) {
	r, err := newDrawsRun(x, y, lik, prior, theta, o)
	if err != nil {
		return nil, err
	}
	return r.q, r.laplace(ctx)
}

// A drawsRun is the state of RefineDraws.
type drawsRun struct {
	x              *linearize.Batch
	y              *mat.Dense
	lik            gp.Likelihood
	theta          []float64
	mu0, precision []float64 // of the prior
	o              DrawsOptions
	q              *Drawn
	full           *mat.Dense // the smoothed precision, its upper triangle
}

func newDrawsRun(x *linearize.Batch, y *mat.Dense, lik gp.Likelihood, prior ntk.Prior, theta []float64, o *DrawsOptions) (*drawsRun, error) {
	p := len(theta)
	r := &drawsRun{x: x, y: y, lik: lik, theta: theta, mu0: make([]float64, p), precision: make([]float64, p), o: o.withDefaults(), full: mat.NewDense(p, p, nil)}
	r.q = &Drawn{mean: append([]float64(nil), theta...)}
	prior.MeanTo(r.mu0)
	prior.VarianceTo(r.precision)
	for i, v := range r.precision {
		r.precision[i] = 1 / v
	}
	for _, b := range x.Blocks {
		if o, ok := b.(*linearize.Outer); !ok || o.Weight == nil {
			return nil, fmt.Errorf("variational: a layer of kind %T; only dense layers can be refined by draws", b)
		}
	}
	return r, nil
}

// laplace sets the precision at θ*.
func (r *drawsRun) laplace(ctx context.Context) error {
	sites, err := gp.NewSites(gp.NewTargets(r.y, r.lik), r.x.F)
	if err != nil {
		return err
	}
	return r.curvature(ctx, sites.Lambda, 1)
}

// step takes a step with the expectations of these draws.
func (r *drawsRun) step(ctx context.Context, samples *mat.Dense) error {
	n, c := r.x.F.Dims()
	s, p := samples.Dims()
	residual, lambda := make([]float64, n*c), mat.NewDense(n*c, c, nil)
	f, delta, res, lam := make([]float64, n*c), make([]float64, p), make([]float64, c), make([]float64, c*c)
	for k := range s {
		if err := ctx.Err(); err != nil {
			return err
		}
		clear(f)
		r.x.MulVecTo(f, floats.SubTo(delta, samples.RawRowView(k), r.theta))
		floats.Add(f, r.x.F.RawMatrix().Data)
		for i := range n {
			r.lik.Expand(res, lam, nil, r.y.RawRowView(i), f[i*c:][:c])
			floats.AddScaled(residual[i*c:][:c], 1/float64(s), res)
			floats.AddScaled(lambda.RawMatrix().Data[i*c*c:][:c*c], 1/float64(s), lam)
		}
	}
	if err := r.curvature(ctx, lambda, r.o.Rate); err != nil {
		return err
	}
	// the gradient of the bound in the mean
	g := make([]float64, p)
	r.x.MulTransVecTo(g, residual)
	for i, m := range r.q.mean {
		g[i] -= r.precision[i] * (m - r.mu0[i])
	}
	dense.Solve(r.q.upper, g)
	floats.AddScaled(r.q.mean, r.o.Rate, g)
	return nil
}

// curvature moves the precision to Σ₀⁻¹ + JᵀWJ, a part of the way, and factors it.
func (r *drawsRun) curvature(ctx context.Context, w *mat.Dense, part float64) error {
	p := len(r.theta)
	data := r.full.RawMatrix().Data
	floats.Scale(1-part, data)
	for i, v := range r.precision {
		data[i*p+i] += part * v
	}
	for i := range r.x.Blocks {
		for j := range r.x.Blocks[i:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			addProducts(r.full, r.x.Blocks[i].(*linearize.Outer), r.x.Blocks[i+j].(*linearize.Outer), w, part)
		}
	}
	if r.o.Diagonal {
		r.q.diagonal = make([]float64, p)
		for i := range p {
			r.q.diagonal[i] = data[i*p+i]
		}
	}
	u, ok, err := dense.PotrfContext(ctx, blas64.Symmetric{Uplo: blas.Upper, N: p, Stride: p, Data: append([]float64(nil), data...)})
	if err == nil && !ok {
		err = fmt.Errorf("variational: the precision is not positive definite; raise that of the prior")
	}
	r.q.upper = u
	return err
}

// addProducts adds the part of JᵀWJ that belongs to two layers, times scale, to the upper triangle of dst:
// Σ_n (g_nᵀ W_n g'_n) (a_n a'_nᵀ) for each pair of units, in which g_n, C×out, are gradients and a_n inputs.
func addProducts(dst *mat.Dense, a, b *linearize.Outer, w *mat.Dense, scale float64) {
	c := a.C
	rows, outA := a.G.Dims()
	_, outB := b.G.Dims()
	n := rows / c
	wg := mat.NewDense(rows, outB, nil) // W_n g'_n
	for i := range n {
		dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, dense.Slice(w, i*c, (i+1)*c).RawMatrix(), dense.Slice(b.G, i*c, (i+1)*c).RawMatrix(), 0, dense.Slice(wg, i*c, (i+1)*c).RawMatrix())
	}
	inA, inB := inputsOf(a), inputsOf(b)
	_, da := inA.Dims()
	_, db := inB.Dims()
	g := make([]float64, outB)
	for i := range outA {
		from := 0
		if a == b {
			from = i
		}
		right := mat.NewDense(n, (outB-from)*db, nil)
		for k := range n {
			clear(g)
			for l := k * c; l < (k+1)*c; l++ {
				if v := a.G.At(l, i); v != 0 {
					floats.AddScaled(g, v, wg.RawRowView(l))
				}
			}
			row, input := right.RawRowView(k), inB.RawRowView(k)
			for j := from; j < outB; j++ {
				floats.ScaleTo(row[(j-from)*db:][:db], scale*g[j], input)
			}
		}
		product := dense.New(da, (outB-from)*db)
		dense.Gemm(blas.Trans, blas.NoTrans, 1, inA.RawMatrix(), right.RawMatrix(), 0, product)
		for x := range da {
			p := parameterOf(a, i, x)
			for j := from; j < outB; j++ {
				for y, v := range dense.Row(product, x)[(j-from)*db:][:db] {
					q := parameterOf(b, j, y)
					if a == b && j == i && q < p {
						continue // the other half of a symmetric block
					}
					dst.Set(min(p, q), max(p, q), dst.At(min(p, q), max(p, q))+v)
				}
			}
		}
	}
}

// inputsOf are the inputs of a layer, N×in, with a last column of ones where it has a bias.
func inputsOf(o *linearize.Outer) *mat.Dense {
	if o.Bias == nil {
		return o.A
	}
	n, in := o.A.Dims()
	x := mat.NewDense(n, in+1, nil)
	for i := range n {
		copy(x.RawRowView(i), o.A.RawRowView(i))
		x.Set(i, in, 1)
	}
	return x
}

// parameterOf is the parameter of a unit and an input, the last of which is the bias.
func parameterOf(o *linearize.Outer, unit, input int) int {
	_, in := o.A.Dims()
	switch {
	case input == in:
		return o.Bias.Offset + unit
	case o.Weight.Transposed:
		return o.Weight.Offset + input*o.Weight.Cols + unit
	}
	return o.Weight.Offset + unit*in + input
}
