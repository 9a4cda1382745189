package sparse

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// Prepared are test examples seen through the inducing examples: their
// features, prior covariances and outputs. They are formed once, and predicted
// under any prior precision (At) and any number of inducing examples
// (Leading) with no further kernel. Prepared is read-only.
type Prepared struct {
	family *Inducing
	ratio  float64 // that of the basis that prepared them
	c      int
	phi    blas64.General // T·C×rank
	prior  *mat.Dense     // k_**, T·C×C
	mean   []float64      // m
	f      *mat.Dense     // T×C
}

// Len returns the number of test examples.
func (t *Prepared) Len() int { n, _ := t.f.Dims(); return n }

// F returns the network's outputs at the test examples, T×C; they must not be
// changed.
func (t *Prepared) F() *mat.Dense { return t.f }

// PreparedBytes returns the memory that t prepared examples take with m
// inducing examples and c outputs, K_ZZ having m·c rows; with m inducing pairs
// they take less.
func PreparedBytes(t, m, c int) int64 {
	return prepareBytes(t, memory.Mul(int64(m), int64(c)), c)
}

// prepareBytes is PreparedBytes for rows rows of K_ZZ.
func prepareBytes(t int, rows int64, c int) int64 {
	return memory.Mul(8, memory.Mul(memory.Mul(int64(t), int64(c)), memory.Add(rows, int64(c)+2)))
}

// Prepare passes over the test examples x once. It fails with a
// *gp.MemoryError where their features pass Options.MaxMemory.
func (p *Projected) Prepare(ctx context.Context, x linearize.Source) (*Prepared, error) {
	n, c := x.Len(), p.b.c
	need := func(n int) int64 { return prepareBytes(n, int64(p.b.rows()), c) }
	if err := gp.CheckMemory("preparing predictions", gp.TestExamples, n, p.o.MaxMemory, need); err != nil {
		return nil, err
	}
	if n == 0 {
		return &Prepared{family: p.b.family, ratio: p.b.ratio, c: c, f: new(mat.Dense)}, nil
	}
	t := &Prepared{family: p.b.family, ratio: p.b.ratio, c: c, phi: dense.New(n*c, p.b.rank()), prior: mat.NewDense(n*c, c, nil),
		mean: make([]float64, n*c), f: mat.NewDense(n, c, nil)}
	f := newFeatures(p.b, n)
	return t, p.b.eachPart(ctx, x, &p.o, StagePrepare, func(part part) error {
		if err := sites.NotFiniteRows("network output", part.x.F, part.first, 1); err != nil {
			return err
		}
		phi, err := f.of(ctx, part)
		if err != nil {
			return err
		}
		lo, hi := part.first*c, part.first*c+part.rows
		for i := range part.rows {
			copy(t.phi.Data[(lo+i)*t.phi.Stride:][:phi.Cols], phi.Data[i*phi.Stride:])
		}
		p.b.k.DiagTo(dense.Slice(t.prior, lo, hi), part.x)
		p.b.k.MeanTo(t.mean[lo:hi], part.x)
		dense.Slice(t.f, part.first, part.first+part.x.Len()).Copy(part.x.F)
		return sites.NotFinite("prior mean", t.mean[lo:hi], part.first, c)
	})
}

// PredictPreparedTo is PredictTo for prepared examples. They must have been
// prepared by a posterior with the same inducing examples, of which p has all
// or leading ones, under any prior precision; otherwise it panics.
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
	if mean != nil {
		p.preparedMean(mean, t, root)
	}
	if cov == nil {
		return nil
	}
	cov.Scale(ratio, t.prior)
	// Tiles keep the scaled features within memory that is fast to reach.
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

// preparedRatio returns the prior variance of p over that of t.
func (p *Projected) preparedRatio(t *Prepared) float64 {
	if t.family != p.b.family || t.phi.Cols < p.b.rank() {
		panic("sparse: examples prepared for other inducing examples")
	}
	return p.b.ratio / t.ratio
}

// preparedMean writes m + φᵀw, or f(x;θ*).
func (p *Projected) preparedMean(mean *mat.Dense, t *Prepared, root float64) {
	if !p.ownMean() {
		mean.Copy(t.f)
		return
	}
	c := p.b.c
	for i, m := range t.mean {
		// mean(x*) = m(x*) + φ(x*)ᵀ A'⁻¹ Φb (E13)
		mean.Set(i/c, i%c, m+root*floats.Dot(t.phi.Data[i*t.phi.Stride:][:len(p.w)], p.w))
	}
}
