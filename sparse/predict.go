package sparse

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/internal/vector"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// PredictTo writes the posterior mean of the T examples of x, T×C, and the
// covariance of each example's outputs, T·C×C (E13). It takes test examples in
// tiles. The features of a tile take up to three matrices of at most 64 MiB each,
// or of one example. The first covariance also computes a root of
// K_ZZ⁻¹ − A⁻¹ or, where K_ZZ is singular, of I − A'⁻¹, at most 8·(M·C)² bytes, which p keeps.
//
// Far from the inducing examples the variance is the prior's. A variance that is
// negative by less than 1e-11 of the prior's is rounding and becomes zero; a more
// negative one is a *gp.NegativeVarianceError.
func (p *Projected) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return p.PredictBesideTo(ctx, mean, cov, x, nil, nil)
}

// PredictBesideTo does what PredictTo does, and writes the covariances of another posterior, beside, to besideCov, T·C×C.
// If beside has the inducing examples of p and their kernel, as a posterior of p.Builder has, one cross-kernel serves
// both. A nil beside is left out, and otherwise besideCov must not be nil. The errors are those of PredictTo of either.
func (p *Projected) PredictBesideTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch,
	beside *Projected, besideCov *mat.Dense) error {
	if beside != nil && beside.b != p.b {
		if err := beside.PredictTo(ctx, nil, besideCov, x); err != nil {
			return err
		}
		beside = nil
	}
	t, c := p.checkInputs(x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if beside != nil {
		dense.SizeTo(besideCov, t*c, c)
	}
	return p.eachTile(ctx, x, func(tile chunk, f *features) error {
		lo, hi := tile.first, tile.first+tile.x.Len()
		var at blas64.General
		if beside != nil || cov != nil || mean != nil && p.linearMean() {
			var err error
			if at, err = f.coordinates(ctx, tile); err != nil {
				return err
			}
		}
		if beside != nil {
			if err := beside.covarianceTo(ctx, dense.Slice(besideCov, lo*c, hi*c), tile, at); err != nil {
				return err
			}
		}
		if err := p.meanTo(dense.Slice(mean, lo, hi), tile, at); err != nil || cov == nil {
			return err
		}
		return p.covarianceTo(ctx, dense.Slice(cov, lo*c, hi*c), tile, at)
	})
}

// covarianceTo writes the covariance of each example of tile, whose coordinates are given.
func (p *Projected) covarianceTo(ctx context.Context, cov *mat.Dense, tile chunk, at blas64.General) error {
	r, err := p.root(ctx, p.b.g.Rows > 0)
	if err != nil {
		return err
	}
	p.b.k.DiagTo(cov, tile.x)
	return p.reduceTo(ctx, cov, at, r, tile.first)
}

// reduceTo subtracts (xr)(xr)ᵀ from the prior covariance of each example in cov, where x has a row for each output. Errors
// count examples from first.
func (p *Projected) reduceTo(ctx context.Context, cov *mat.Dense, x blas64.General, r *root, first int) error {
	half, err := r.times(ctx, x)
	if err != nil {
		return err
	}
	c := p.b.c
	return par.Do(ctx, x.Rows/c, func(i int) error {
		block, rows, prior := dense.Slice(cov, i*c, (i+1)*c), dense.Rows(half, i*c, (i+1)*c), make([]float64, c)
		for a := range c {
			prior[a] = block.At(a, a)
			for b := range a + 1 {
				// k_** − k_*Z (K_ZZ⁻¹ − A⁻¹) k_Z* (E13)
				v := block.At(a, b) - vector.Dot(dense.Row(rows, a), dense.Row(rows, b))
				block.Set(a, b, v)
				block.Set(b, a, v)
			}
		}
		return gp.SettleVariances(block, prior, rounding, first+i, c)
	})
}

// eachTile calls do with one tile of x after another, whose network outputs are finite. The features of a tile take
// at most p.tile bytes, or are those of one example; f forms them in the same
// memory. It checks ctx before each tile.
func (p *Projected) eachTile(ctx context.Context, x *linearize.Batch, do func(tile chunk, f *features) error) error {
	t, c := x.Len(), p.b.c
	if t == 0 {
		return nil
	}
	step := max(1, min(t, p.tile/8/c/p.b.rows()))
	f := newFeaturesOf(p.b, step*c)
	for lo := 0; lo < t; lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+step, t)
		tile := chunk{first: lo, x: x.Slice(lo, hi), rows: (hi - lo) * c}
		if err := sites.NotFiniteRows("network output", tile.x.F, lo, 1); err != nil {
			return err
		}
		if err := do(tile, f); err != nil {
			return err
		}
	}
	return nil
}

// coordinates returns k_*Z of a chunk, or φ_* where K_ZZ is singular, because the large weights of k_*Z there would
// amplify rounding. The result is valid until the next call of f.
func (f *features) coordinates(ctx context.Context, p chunk) (blas64.General, error) {
	k, err := f.cross(p)
	if err != nil || f.b.g.Rows == 0 {
		return k, err
	}
	return f.solve(ctx, p, k)
}

// meanTo writes m + k_*Z Gw, or f(x;θ*), of a tile whose coordinates are given.
func (p *Projected) meanTo(mean *mat.Dense, tile chunk, at blas64.General) error {
	if mean == nil {
		return nil
	}
	if !p.linearMean() {
		mean.Copy(tile.x.F)
		return nil
	}
	v := p.v
	if p.b.g.Rows > 0 {
		v = p.w
	}
	m := make([]float64, tile.rows)
	p.b.k.MeanTo(m, tile.x)
	c := p.b.c
	for i := range m {
		// mean(x*) = m(x*) + K_*Z A⁻¹ c (E13)
		m[i] += floats.Dot(dense.Row(at, i), v)
		mean.Set(i/c, i%c, m[i])
	}
	return sites.NotFinite("predictive mean", m, tile.first, c)
}

// rounding is the fraction of the prior variance by which rounding may make a
// variance negative.
const rounding = 1e-11

// SplitTo implements gp.SplitSolver: h is k_xZ A⁻¹ k_Zx, which is what Cross gives for an example and itself, and rest the
// residual k_xx − q_xx. With this h the removal of an example (E15) is exact for this posterior.
func (p *Projected) SplitTo(ctx context.Context, mean, h, rest *mat.Dense, x *linearize.Batch) error {
	t, c := p.checkInputs(x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(h, t*c, c)
	dense.SizeTo(rest, t*c, c)
	return p.eachTile(ctx, x, func(tile chunk, f *features) error {
		lo, hi := tile.first, tile.first+tile.x.Len()
		phi, err := f.coordinates(ctx, tile)
		if err != nil {
			return err
		}
		if err := p.meanTo(dense.Slice(mean, lo, hi), tile, phi); err != nil {
			return err
		}
		if p.b.g.Rows == 0 {
			if phi, err = f.solve(ctx, tile, phi); err != nil {
				return err
			}
		}
		part := dense.Slice(rest, lo*c, hi*c)
		if rest != nil {
			p.b.k.DiagTo(part, tile.x)
		}
		return p.split(ctx, dense.Slice(h, lo*c, hi*c), part, phi)
	})
}

// split writes φA'⁻¹φᵀ of each example to h, and subtracts φφᵀ from the prior covariances in rest. It overwrites phi.
func (p *Projected) split(ctx context.Context, h, rest *mat.Dense, phi blas64.General) error {
	if rest != nil {
		if err := addBlocks(ctx, rest, -1, phi); err != nil {
			return err
		}
	}
	if h == nil {
		return nil
	}
	if err := p.half(ctx, phi); err != nil {
		return err
	}
	h.Zero()
	return addBlocks(ctx, h, 1, phi)
}

// addBlocks adds sign times the C×C blocks on the diagonal of aaᵀ to dst, which has a block after another.
func addBlocks(ctx context.Context, dst *mat.Dense, sign float64, a blas64.General) error {
	_, c := dst.Dims()
	return par.Do(ctx, a.Rows/c, func(i int) error {
		for j := i * c; j < (i+1)*c; j++ {
			for k := i * c; k <= j; k++ {
				v := dst.At(j, k-i*c) + sign*floats.Dot(dense.Row(a, j), dense.Row(a, k))
				dst.Set(j, k-i*c, v)
				dst.Set(k, j-i*c, v)
			}
		}
		return nil
	})
}

// JointTo writes the mean, T×C, and the joint covariance of all outputs of
// all examples of x, T·C×T·C (E13). It fails with a *gp.MemoryError where the
// covariance and the features of x need more than Options.Memory.
func (p *Projected) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := p.checkInputs(x)
	if err := ctx.Err(); err != nil {
		return err
	}
	dense.SizeTo(mean, t, c)
	if cov == nil || t == 0 {
		dense.SizeTo(cov, t*c, t*c)
		return p.PredictTo(ctx, mean, nil, x)
	}
	need := func(t int) int64 {
		rows := memory.Mul(int64(t), int64(c))
		return memory.Mul(8, memory.Mul(rows, memory.Add(rows, 2*int64(p.b.rows()))))
	}
	if err := gp.CheckMemory("a joint covariance", gp.TestExamples, t, p.o.Memory, need); err != nil {
		return err
	}
	dense.SizeTo(cov, t*c, t*c)
	if err := sites.NotFiniteRows("network output", x.F, 0, 1); err != nil {
		return err
	}
	all := chunk{x: x, rows: t * c}
	at, err := newFeaturesOf(p.b, all.rows).coordinates(ctx, all)
	if err != nil {
		return err
	}
	if err := p.meanTo(mean, all, at); err != nil {
		return err
	}
	r, err := p.root(ctx, p.b.g.Rows > 0)
	if err != nil {
		return err
	}
	half, err := r.times(ctx, at)
	if err != nil {
		return err
	}
	if err := ntk.BlockContextTo(ctx, p.b.k, cov, x, x); err != nil {
		return err
	}
	g := cov.RawMatrix()
	prior := dense.Diagonal(g)
	// K_** − K_*Z (K_ZZ⁻¹ − A⁻¹) K_Z* (E13)
	if err := dense.SyrkContext(ctx, blas.NoTrans, -1, half, 1, dense.Lower(g)); err != nil {
		return err
	}
	dense.MirrorLower(g)
	return gp.SettleVariances(cov, prior, rounding, 0, p.b.c)
}

// checkInputs returns the numbers of examples and outputs. It panics where x does not fit the
// inducing examples.
func (p *Projected) checkInputs(x *linearize.Batch) (t, c int) {
	z := p.b.z.Batch
	return (&gp.TrainingSet{Outputs: p.b.c, Parameters: z.P, Model: z.Model}).Check(x)
}

// Prepared holds the features, prior covariances and outputs of test examples. They
// are computed once; predictions under another prior precision (At) and with fewer
// inducing examples (Leading) then need no kernel. Prepared is read-only.
type Prepared struct {
	inducing *Inducing
	ratio    float64 // ratio of the basis that prepared them
	c        int
	phi      blas64.General // T·C×rank
	prior    *mat.Dense     // k_**, T·C×C
	mean     []float64      // m
	f        *mat.Dense     // T×C
}

// Len returns the number of test examples.
func (t *Prepared) Len() int { n, _ := t.f.Dims(); return n }

// F returns the network's outputs at the test examples, T×C; they must not be
// changed.
func (t *Prepared) F() *mat.Dense { return t.f }

// PreparedBytes returns the memory in bytes that t prepared examples take with m
// inducing examples and c outputs. With m inducing pairs they take less.
func PreparedBytes(t, m, c int) int64 {
	return prepareBytes(t, memory.Mul(int64(m), int64(c)), c)
}

// prepareBytes is PreparedBytes where K_ZZ has that many rows.
func prepareBytes(t int, rows int64, c int) int64 {
	return memory.Mul(8, memory.Mul(memory.Mul(int64(t), int64(c)), memory.Add(rows, int64(c)+2)))
}

// Prepare returns the test examples x with their features, in one pass over x. It
// fails with a *gp.MemoryError where the features need more than
// Options.Memory.
func (p *Projected) Prepare(ctx context.Context, x linearize.Source) (*Prepared, error) {
	n, c := x.Len(), p.b.c
	need := func(n int) int64 { return prepareBytes(n, int64(p.b.rows()), c) }
	if err := gp.CheckMemory("preparing predictions", gp.TestExamples, n, p.o.Memory, need); err != nil {
		return nil, err
	}
	if n == 0 {
		return &Prepared{inducing: p.b.prefixOf, ratio: p.b.ratio, c: c, f: new(mat.Dense)}, nil
	}
	t := &Prepared{inducing: p.b.prefixOf, ratio: p.b.ratio, c: c, phi: dense.New(n*c, p.b.rank()), prior: mat.NewDense(n*c, c, nil),
		mean: make([]float64, n*c), f: mat.NewDense(n, c, nil)}
	f := newFeatures(p.b, n)
	return t, p.b.eachChunk(ctx, x, &p.o, StagePrepare, func(test chunk) error {
		if err := sites.NotFiniteRows("network output", test.x.F, test.first, 1); err != nil {
			return err
		}
		phi, err := f.of(ctx, test)
		if err != nil {
			return err
		}
		lo, hi := test.first*c, test.first*c+test.rows
		for i := range test.rows {
			copy(t.phi.Data[(lo+i)*t.phi.Stride:][:phi.Cols], phi.Data[i*phi.Stride:])
		}
		p.b.k.DiagTo(dense.Slice(t.prior, lo, hi), test.x)
		p.b.k.MeanTo(t.mean[lo:hi], test.x)
		dense.Slice(t.f, test.first, test.first+test.x.Len()).Copy(test.x.F)
		return sites.NotFinite("prior mean", t.mean[lo:hi], test.first, c)
	})
}

// PredictPreparedTo is PredictTo for prepared examples. It panics unless p is the
// posterior that prepared them, or both come from one posterior by At and Leading
// and p has no more inducing examples than the one that prepared them.
func (p *Projected) PredictPreparedTo(ctx context.Context, mean, cov *mat.Dense, t *Prepared) error {
	n, c, r := t.Len(), p.b.c, p.b.rank()
	dense.SizeTo(mean, n, c)
	dense.SizeTo(cov, n*c, c)
	if n == 0 {
		return nil
	}
	ratio := p.preparedRatio(t)
	if err := ctx.Err(); err != nil {
		return err
	}
	root := math.Sqrt(ratio)
	switch {
	case mean == nil:
	case !p.linearMean():
		mean.Copy(t.f)
	default:
		for i, m := range t.mean {
			// mean(x*) = m(x*) + φ(x*)ᵀ A'⁻¹ Φb (E13)
			mean.Set(i/c, i%c, m+root*floats.Dot(t.phi.Data[i*t.phi.Stride:][:len(p.w)], p.w))
		}
	}
	if cov == nil {
		return nil
	}
	cov.Scale(ratio, t.prior)
	explained, err := p.root(ctx, true)
	if err != nil {
		return err
	}
	// Tiles are small enough for the scaled features to stay in a cache.
	step := linearize.Tile(c)
	for i := range par.Tiles(n, step) {
		lo, hi := par.Bounds(i, n, step)
		if err := p.reduceTo(ctx, dense.Slice(cov, lo*c, hi*c), t.features(lo, hi, r, root), explained, lo); err != nil {
			return err
		}
	}
	return nil
}

// features returns the first r features of examples [lo, hi), times root.
func (t *Prepared) features(lo, hi, r int, root float64) blas64.General {
	phi := dense.New((hi-lo)*t.c, r)
	for row := range phi.Rows {
		floats.ScaleTo(dense.Row(phi, row), root, dense.Row(t.phi, lo*t.c+row)[:r])
	}
	return phi
}

// preparedRatio returns the prior variance of p divided by that of t.
func (p *Projected) preparedRatio(t *Prepared) float64 {
	if t.inducing != p.b.prefixOf || t.phi.Cols < p.b.rank() {
		panic("sparse: examples prepared for other inducing examples")
	}
	return p.b.ratio / t.ratio
}
