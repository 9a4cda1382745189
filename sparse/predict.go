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
// or of one example. The first covariance also computes a triangular root of
// K_ZZ⁻¹ − A⁻¹ or, where that is singular, I − A'⁻¹, 8·(M·C)² bytes, which p keeps.
//
// Far from the inducing examples the variance is the prior's. A variance that is
// negative by less than 1e-11 of the prior's is rounding and becomes zero; a more
// negative one is a *gp.NegativeVarianceError.
func (p *Projected) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return p.PredictBesideTo(ctx, mean, cov, x, nil, nil)
}

// PredictBesideTo is PredictTo, and writes the covariances of another posterior beside, T·C×C, to besideCov, which is not
// nil then. Where beside has the inducing examples of p and their kernel, as a posterior of p.Builder has, it takes one
// cross-kernel for both, and one more matrix of a tile. A nil beside is PredictTo alone. The errors are those of PredictTo
// of either.
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
		if err := sites.NotFiniteRows("network output", tile.x.F, lo, 1); err != nil {
			return err
		}
		var k blas64.General
		if beside != nil || cov != nil || mean != nil && p.linearMean() {
			var err error
			if k, err = f.cross(tile); err != nil {
				return err
			}
		}
		if beside != nil {
			own := dense.New(k.Rows, k.Cols)
			dense.Copy(own, k)
			if err := beside.predictTile(ctx, nil, dense.Slice(besideCov, lo*c, hi*c), tile, own, f); err != nil {
				return err
			}
		}
		return p.predictTile(ctx, dense.Slice(mean, lo, hi), dense.Slice(cov, lo*c, hi*c), tile, k, f)
	})
}

// predictTile is PredictTo for the examples of tile, where k holds k_*Z if the result needs it. It may overwrite k.
func (p *Projected) predictTile(ctx context.Context, mean, cov *mat.Dense, tile chunk, k blas64.General, f *features) error {
	x, lo := tile.x, tile.first
	s, ok, err := blas64.General{}, false, error(nil)
	if cov != nil {
		if s, ok, err = p.reduction(ctx); err != nil {
			return err
		}
	}
	phi, err := p.meanAndFeatures(ctx, mean, x, lo, k, f, cov != nil && !ok)
	if err != nil || cov == nil {
		return err
	}
	p.b.k.DiagTo(cov, x)
	if !ok {
		return p.marginals(ctx, cov, phi, lo)
	}
	// Subtract (kS)(kS)ᵀ of each example from its prior covariance in cov. Errors count examples from first.
	c, ks := p.b.c, dense.New(k.Rows, k.Cols)
	if err := dense.GemmUpperContext(ctx, k, s, ks); err != nil {
		return err
	}
	return par.Do(ctx, k.Rows/c, func(i int) error {
		block, rows, prior := dense.Slice(cov, i*c, (i+1)*c), dense.Rows(ks, i*c, (i+1)*c), make([]float64, c)
		for a := range c {
			prior[a] = block.At(a, a)
			for b := range a + 1 {
				// k_** − k_*Z (K_ZZ⁻¹ − A⁻¹) k_Z* (E13)
				v := block.At(a, b) - vector.Dot(dense.Row(rows, a), dense.Row(rows, b))
				block.Set(a, b, v)
				block.Set(b, a, v)
			}
		}
		return gp.SettleVariances(block, prior, rounding, lo+i, c)
	})
}

// eachTile calls do with one tile of x after another. The features of a tile take
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
		if err := do(chunk{first: lo, x: x.Slice(lo, hi), rows: (hi - lo) * c}, f); err != nil {
			return err
		}
	}
	return nil
}

// meanAndFeatures writes the mean, and returns the features of x where want is
// true. k holds k_*Z, which it may overwrite. The mean comes from k, or from the
// features where K_ZZ is singular.
func (p *Projected) meanAndFeatures(ctx context.Context, mean *mat.Dense, x *linearize.Batch, first int, k blas64.General, f *features, want bool) (phi blas64.General, err error) {
	at, v := k, p.v
	if p.b.g.Rows > 0 && k.Rows > 0 {
		if phi, err = f.solve(ctx, chunk{first: first, x: x, rows: k.Rows}, k); err != nil {
			return phi, err
		}
		at, v = phi, p.w
	}
	if mean != nil {
		if err := p.meanTo(mean, x, first, at, v); err != nil {
			return phi, err
		}
	}
	if p.b.g.Rows == 0 && want {
		return f.solve(ctx, chunk{first: first, x: x, rows: k.Rows}, k)
	}
	return phi, nil
}

// meanTo writes m + k_*Z v, or f(x;θ*), where k holds k_*Z and v is Gw. Where K_ZZ
// is singular, the large weights v would amplify rounding; then k holds φ_* and v
// is w.
func (p *Projected) meanTo(mean *mat.Dense, x *linearize.Batch, first int, k blas64.General, v []float64) error {
	if !p.linearMean() {
		mean.Copy(x.F)
		return nil
	}
	m := make([]float64, k.Rows)
	p.b.k.MeanTo(m, x)
	c := p.b.c
	for i := range m {
		// mean(x*) = m(x*) + K_*Z A⁻¹ c (E13)
		m[i] += floats.Dot(k.Data[i*k.Stride:][:k.Cols], v)
		mean.Set(i/c, i%c, m[i])
	}
	return sites.NotFinite("predictive mean", m, first, c)
}

// explainedPanel is how many columns of φT are computed at a time.
const explainedPanel = 256

// rounding is the fraction of the prior variance by which rounding may make a
// variance negative.
const rounding = 1e-11

// marginals replaces the prior C×C covariance of each example in cov by the
// posterior one. Errors count examples from first.
func (p *Projected) marginals(ctx context.Context, cov *mat.Dense, phi blas64.General, first int) error {
	c := p.b.c
	// Compute φT for rows φ, where H = T + Tᵀ and T is upper triangular. Then φ_aHφ_bᵀ =
	// φ_aTφ_bᵀ + φ_bTφ_aᵀ, for half the work of φH.
	tphi := dense.New(phi.Rows, phi.Cols)
	h, err := p.explained(ctx)
	if err != nil {
		return err
	}
	for i := range par.Tiles(h.Cols, explainedPanel) {
		lo, hi := par.Bounds(i, h.Cols, explainedPanel)
		to, t := dense.Cols(tphi, lo, hi), dense.New(hi-lo, hi-lo)
		for i := range t.Rows {
			copy(dense.Row(t, i)[i:], dense.Row(h, lo+i)[lo+i:hi])
			t.Data[i*t.Stride+i] /= 2
		}
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, dense.Cols(phi, lo, hi), t, 0, to); err != nil {
			return err
		}
		if lo == 0 {
			continue
		}
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, dense.Cols(phi, 0, lo), dense.Cols(dense.Rows(h, 0, lo), lo, hi), 1, to); err != nil {
			return err
		}
	}
	prior := make([]float64, c)
	for i := range phi.Rows / c {
		row := func(g blas64.General, a int) []float64 { return dense.Row(g, i*c+a) }
		block := dense.Slice(cov, i*c, (i+1)*c)
		for a := range c {
			prior[a] = block.At(a, a)
			for b := range a + 1 {
				// cov = k_** − φ(I − A'⁻¹)φᵀ = k_** − q_** + k_*Z A⁻¹ k_Z* (E13)
				v := block.At(a, b) - floats.Dot(row(tphi, a), row(phi, b)) - floats.Dot(row(tphi, b), row(phi, a))
				block.Set(a, b, v)
				block.Set(b, a, v)
			}
		}
		if err := gp.SettleVariances(block, prior, rounding, first+i, c); err != nil {
			return err
		}
	}
	return nil
}

// SelfTo writes k_xZ A⁻¹ k_Zx of each example of x, T·C×C, which is what Cross gives
// for an example and itself. It is the covariance of PredictTo without the
// residual. With this h the removal of an example (E15) is exact for this
// posterior.
func (p *Projected) SelfTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch) error {
	t, c := p.checkInputs(x)
	dense.SizeTo(dst, t*c, c)
	return p.eachTile(ctx, x, func(tile chunk, f *features) error {
		phi, err := f.of(ctx, tile)
		if err != nil {
			return err
		}
		if err := p.half(ctx, phi); err != nil {
			return err
		}
		blocksOf(dst, tile.first*c, phi, c)
		return nil
	})
}

// blocksOf writes the C×C blocks on the diagonal of a aᵀ to dst, from row first on.
func blocksOf(dst *mat.Dense, first int, a blas64.General, c int) {
	for i := range a.Rows {
		for j := range i%c + 1 {
			k := i/c*c + j
			v := floats.Dot(a.Data[i*a.Stride:][:a.Cols], a.Data[k*a.Stride:][:a.Cols])
			dst.Set(first+i, j, v)
			dst.Set(first+k, i%c, v)
		}
	}
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
	f := newFeaturesOf(p.b, t*c)
	k, err := f.cross(chunk{x: x, rows: t * c})
	if err != nil {
		return err
	}
	phi, err := p.meanAndFeatures(ctx, mean, x, 0, k, f, true)
	if err != nil {
		return err
	}
	if err := ntk.BlockContextTo(ctx, p.b.k, cov, x, x); err != nil {
		return err
	}
	g := cov.RawMatrix()
	prior, hphi := dense.Diagonal(g), dense.New(phi.Rows, phi.Cols)
	h, err := p.explained(ctx)
	if err != nil {
		return err
	}
	if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, phi, h, 0, hphi); err != nil {
		return err
	}
	// K_** − K_*Z (K_ZZ⁻¹ − A⁻¹) K_Z* (E13)
	if err := dense.GemmContext(ctx, blas.NoTrans, blas.Trans, -1, hphi, phi, 1, g); err != nil {
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
	ratio    float64 // that of the basis that prepared them
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
	// Tiles are small enough for the scaled features to stay in a cache.
	step := linearize.Tile(c)
	for i := range par.Tiles(n, step) {
		if err := ctx.Err(); err != nil {
			return err
		}
		lo, hi := par.Bounds(i, n, step)
		phi := dense.New((hi-lo)*c, r)
		for row := range phi.Rows {
			floats.ScaleTo(phi.Data[row*r:(row+1)*r], root, t.phi.Data[(lo*c+row)*t.phi.Stride:][:r])
		}
		if err := p.marginals(ctx, dense.Slice(cov, lo*c, hi*c), phi, lo); err != nil {
			return err
		}
	}
	return nil
}

// preparedRatio returns the prior variance of p divided by that of t.
func (p *Projected) preparedRatio(t *Prepared) float64 {
	if t.inducing != p.b.prefixOf || t.phi.Cols < p.b.rank() {
		panic("sparse: examples prepared for other inducing examples")
	}
	return p.b.ratio / t.ratio
}
